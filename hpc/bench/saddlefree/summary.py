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
    setting, curves = found["autoencoder"]["setting"], found["autoencoder"]["curves"]
    layers = "-".join(map(str, setting["layers"]))
    ends = ", ".join(f"{name} {curve[-1][2]:.3g}" for name, curve in curves.items())
    return f"""
**[Saddle-free optimization](hpc/results/saddlefree.md)**
([quick run](hpc/results/saddlefree-quick.md), `scripts/bench saddlefree`). |H|⁻¹g to {tolerance:g}
at condition {condition} takes {products["lanczos"]:,} Hessian products by Lanczos,
{products["ode"]:,} by the ordinary differential equation of the source. Autoencoder {layers} on
{setting["rows"]:,} images of {setting["data"]}: squared error per image after
{setting["seconds"]:.0f} s: {ends}.
"""
