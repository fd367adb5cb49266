"""A million image patches: that a run finishes, in what memory and time."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

import thalweg
from thalweg.data import Dataset
from thalweg.report import format_table
from thalweg_embedding.objectives import t_sne

#: Most seconds of the optimization, which ends at the first iterate after them.
SECONDS = 300.0


def measure_patches(folder: Path | None, rows: int, iterations: int) -> dict[str, Any]:
    """t-SNE of natural image patches, approximate neighbors, perplexity 10."""
    file = None if folder is None else folder / "patches" / "scene15_patches8x8_1M.npy"
    if file is None or not file.exists():
        return {"missing": "no folder with patches/ was given"}
    values = np.load(file, mmap_mode="r", allow_pickle=False)[:rows].astype(np.float32)
    begin = time.perf_counter()
    data = Dataset.from_array(values, name="patches")
    objective = t_sne(
        data,
        data.comm,
        perplexity=10.0,
        neighbor_search="approximate",
        graph="sparse",
        init="pca",
    )
    building = time.perf_counter() - begin
    result = thalweg.minimize(
        objective,
        solver="lbfgs",
        preconditioner="spectral",
        iterations=iterations,
        seconds=SECONDS,
        decrease=1e-6,
    )
    trace = result.trace
    objective.destroy()
    return {
        "rows": len(values),
        "neighbors and affinities": building,
        "setup": float(result.seconds["setup"]),
        "optimization": float(result.seconds["optimize"]),
        "evaluations": result.evaluations,
        "kl": float(result.metrics.get("kl_divergence", result.objective)),
        "peak memory, GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "curve": [
            [float(s), float(v), float(lambda_)]
            for s, v, lambda_ in zip(
                trace["seconds"], trace["objective"], trace["lambda"], strict=True
            )
        ],
    }


def patches_section(found: dict[str, Any], stem: Path) -> list[str]:
    """One row of what it took."""
    if "missing" in found:
        return []
    row = {
        key: value for key, value in found.items() if key not in ("curve", "load", "cores", "note")
    }
    return [
        f"## {found['rows']:,} image patches",
        "",
        "8 x 8 pixels, t-SNE with perplexity 10, approximate neighbors; seconds.  The "
        f"optimization may take {SECONDS:g} s.",
        "",
        format_table([row], markdown=True),
        "",
    ]
