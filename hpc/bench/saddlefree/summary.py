"""Rows of the README's table about saddle-free optimization."""

from __future__ import annotations

from typing import Any

from hpc.bench.saddlefree.validation_report import is_ours, lowest

#: Of how many rivals the figures are shown, the best first.
SHOWN = 3


def rows(records: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What was measured, ours, and others'."""
    condition, bound = 10, 1e-6
    products: dict[str, int] = {}
    for row in records["directions"]:
        if row["condition"] == condition and row["error"] <= bound:
            way = row["way"].split(",")[0]
            products[way] = min(row["products"], products.get(way, row["products"]))
    first = (
        f"&#124;H&#124;⁻¹g to {bound:g} at condition {condition}: Hessian products",
        f"{products['lanczos']:,}",
        f"differential equation of the source {products['ode']:,}",
    )
    judged = records.get("validation", {})
    return [
        first,
        *(_validation(name, record) for name, record in judged.items()),
        *(_training(name, record) for name, record in records["training"].items()),
    ]


def _validation(name: str, judged: dict[str, Any]) -> tuple[str, str, str]:
    setting, runs = judged["setting"], judged["runs"]
    ends = {method: _mean(lowest(run["curves"])) for method, run in runs.items()}
    own = {m.partition(", ")[2] or "tuned": value for m, value in ends.items() if is_ours(m)}
    others = sorted((value, method) for method, value in ends.items() if not is_ours(method))
    kind = "loss" if setting["measure"] == "loss" else "squared error per case"
    what = f"{name}: lowest validation {kind} in {setting['seconds']:g} core-seconds"
    ours = ", ".join(f"{m} {value:.3g}" for m, value in own.items())
    return what, ours, ", ".join(f"{m} {value:.3g}" for value, m in others[:SHOWN])


def _training(name: str, training: dict[str, Any]) -> tuple[str, str, str]:
    setting, runs = training["setting"], training["runs"]
    ends = {method: _mean([curve[-1][3] for curve in r["curves"]]) for method, r in runs.items()}
    seconds = next(iter(runs.values()))["seconds"]
    unit = "core-seconds" if setting["clock"] == "cpu" else "seconds on all cores"
    kind = "loss" if setting["measure"] == "loss" else "squared error per case"
    own = min((value, name) for name, value in ends.items() if "saddle-free" in name)[0]
    others = sorted((value, name) for name, value in ends.items() if "free" not in name)[:SHOWN]
    what = f"{name}, {setting['data']}: training {kind} after {seconds:g} {unit}"
    return what, f"{own:.3g}", ", ".join(f"{method} {value:.3g}" for value, method in others)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
