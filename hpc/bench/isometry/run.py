"""One measured run."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import thalweg
from thalweg.engines.secants.secants import SecantSet
from thalweg.parallel import MPI, Layout
from thalweg_isometry import NearIsometry


def secants_of(points: np.ndarray) -> SecantSet:
    """The secant set of points that this process holds alone."""
    return SecantSet(points, Layout(MPI.COMM_SELF, *points.shape))


def measure(
    points: np.ndarray | SecantSet,
    solver: str,
    delta: float | None,
    rank: int | None = None,
    seconds: float = 60.0,
    **options: Any,
) -> dict[str, Any]:
    """Solve, certify and time; ``components`` holds the map."""
    began = time.perf_counter()
    secants = points if isinstance(points, SecantSet) else secants_of(points)
    objective = NearIsometry(secants, delta, rank)
    result = thalweg.minimize(objective, solver=solver, seconds=seconds, **options)
    facts = dict(result.metrics)
    return {
        "method": solver,
        "wanted_delta": delta,
        "wanted_rank": rank,
        "rank": facts["rank"],
        "delta": facts["delta"],
        "delta_lower": facts["delta_lower"],
        "rank_lower_bound": facts["rank_lower_bound"],
        "secants": facts["n_secants"],
        "active": int(result.trace["active"][-1]),
        "status": result.status.name,
        "evaluations": result.evaluations,
        "seconds": time.perf_counter() - began,
        "components": result.solution,
    }


def without_map(found: dict[str, Any]) -> dict[str, Any]:
    """A measurement without its matrix, for JSON."""
    return {key: value for key, value in found.items() if key != "components"}


def reached(found: dict[str, Any]) -> bool:
    """Whether the wanted delta was certified."""
    wanted = found["wanted_delta"]
    return wanted is None or found["delta"] <= wanted
