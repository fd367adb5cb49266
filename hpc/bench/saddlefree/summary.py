"""What the README says of saddle-free optimization."""

from __future__ import annotations

from typing import Any

from hpc.bench.saddlefree.plateaus import seconds_to_goal


def summary(found: dict[str, Any]) -> str:
    """Markdown of the recorded results."""
    condition, bound = 10, 1e-6
    products: dict[str, int] = {}
    for row in found["directions"]:
        if row["condition"] == condition and row["error"] <= bound:
            way = row["way"].split(",")[0]
            products[way] = min(row["products"], products.get(way, row["products"]))
    lines = [_training(name, record) for name, record in found["training"].items()]
    shown = "\n\n".join(lines)
    return f"""
**[Saddle-free optimization](hpc/results/saddlefree.md)**
(`scripts/bench saddlefree`). |H|⁻¹g to {bound:g}
at condition {condition} takes {products["lanczos"]:,} Hessian products by Lanczos,
{products["ode"]:,} by the ordinary differential equation of the source, tuned.
{_plateaus(found["plateaus"])}

{shown}
"""


def _plateaus(found: dict[str, Any]) -> str:
    parts = []
    for network, result in found["networks"].items():
        best: dict[str, float] = {}
        for name, curves in result["curves"].items():
            times = [seconds_to_goal(curve, found["way"]) for curve in curves]
            known = [spent for spent in times if spent is not None]
            if len(known) == len(times):
                family = name.split(",")[0]
                best[family] = min(_mean(known), best.get(family, _mean(known)))
        ranked = sorted(best.items(), key=_second)
        times_of = ", ".join(f"{name} {spent:.2g}" for name, spent in ranked)
        parts.append(f"{network}: {times_of}")
    return (
        f"Core-seconds until a network has made {100 * found['way']:g} % of its way "
        f"from a plateau, best setting of each method, others not within "
        f"{found['seconds']:g}: {'; '.join(parts)}."
    )


def _second(item: tuple[str, float]) -> float:
    return item[1]


def _training(name: str, training: dict[str, Any]) -> str:
    setting, runs = training["setting"], training["runs"]
    unit = "core-seconds" if setting["clock"] == "cpu" else "s on all cores"
    kind = "mean loss" if setting["measure"] == "loss" else "squared error per case"
    ends = "; ".join(
        f"{method} {_mean([curve[-1][3] for curve in run['curves']]):.3g} after "
        f"{run['seconds']:g} {unit}"
        for method, run in runs.items()
    )
    return f"{name} ({setting['data']}, {setting['description']}), training {kind}: {ends}."


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
