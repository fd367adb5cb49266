"""What the README says of saddle-free optimization."""

from __future__ import annotations

from typing import Any


def summary(found: dict[str, Any]) -> str:
    """Markdown of the recorded results."""
    condition, tolerance = 10, 1e-6
    products = {
        row["way"]: row["products"]
        for row in found["directions"]
        if (row["condition"], row["tolerance"]) == (condition, tolerance)
    }
    lines = []
    for name, training in found["training"].items():
        if not name.startswith("autoencoder"):
            continue
        setting, runs = training["setting"], training["runs"]
        unit = "core-seconds" if setting["clock"] == "cpu" else "s on all cores"
        ends = "; ".join(
            f"{method} {run['curve'][-1][3]:.3g} after {run['curve'][-1][0]:.0f} {unit} "
            f"({run['status']})"
            for method, run in runs.items()
        )
        what = f"{setting['data']}, {setting['description']}"
        lines.append(f"{name} ({what}), squared error per image: {ends}.")
    shown = "\n".join(lines)
    return f"""
**[Saddle-free optimization](hpc/results/saddlefree.md)**
([quick run](hpc/results/saddlefree-quick.md), `scripts/bench saddlefree`). |H|⁻¹g to {tolerance:g}
at condition {condition} takes {products["lanczos"]:,} Hessian products by Lanczos,
{products["ode"]:,} by the ordinary differential equation of the source.
{shown}
"""
