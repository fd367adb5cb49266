"""What an evaluation and an iteration of t-SNE cost, part by part and by threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import threadpoolctl
from hpc.bench.embedding.data import Images
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.workbench.report import format_table
from thalweg_embedding import TSNE
from thalweg_embedding.objectives import t_sne
from thalweg_embedding.preconditioners.spectral import SpectralDirection

#: Iterations after which the map is still small, and those after which it has grown.
ITERATIONS = (40, 170)

#: Repetitions, of which the quickest counts.
REPETITIONS = 7

#: Fits with each number of threads, of which the quickest counts.
FITS = 4


def measure_costs(images: Images) -> dict[str, Any]:
    """Milliseconds of the parts of an evaluation in a small and in a grown map; seconds of fits."""
    data = Dataset.from_array(images.values)
    threads = [1, numba.get_num_threads()] if numba.get_num_threads() > 1 else [1]
    objective = t_sne(data, data.comm)
    maps: list[np.ndarray] = []
    per_iteration: list[float] = []
    times: list[float] = []

    def note(iterate: Any) -> None:
        times.append(time.process_time())
        if iterate.iteration in ITERATIONS:
            maps.append(np.array(iterate.rows))
            per_iteration.append((times[-1] - times[-11]) / 10.0)

    thalweg.minimize(objective, callback=note, iterations=max(ITERATIONS))
    rows: list[dict[str, Any]] = []
    for places, cpu in zip(maps, per_iteration, strict=True):
        for count in threads:
            with threadpoolctl.threadpool_limits(limits=count):
                numba.set_num_threads(count)
                side = float(np.ptp(places, axis=0).max())
                parts = _parts(objective, places, _clock(count))
                timed = {name: 1e3 * best for name, best in parts.items()}
                rows.append({"side": side, "threads": count, **timed, "CPU": 1e3 * cpu})
    fits = _fits(images.values, threads)
    return {"data": images.name, "rows": len(images.values), "parts": rows, "fits": fits}


def _fits(images: np.ndarray, threads: list[int]) -> list[dict[str, Any]]:
    """Seconds of a fit by points and threads, the quickest of fits with each number in turn."""
    digits = load_digits().data
    found = []
    for points in (digits[:500], digits, images[:5_000], images[:10_000]):
        best: dict[int, tuple[float, float]] = {}
        for turn in range(1 + FITS):  # the first compiles
            for count in threads:
                begin = time.perf_counter(), time.process_time()
                TSNE(random_state=0, n_jobs=count).fit(points)
                seconds = time.perf_counter() - begin[0], time.process_time() - begin[1]
                if turn:
                    best[count] = min(best.get(count, seconds), seconds)
        found += [
            {"points": len(points), "threads": count, "seconds": wall, "CPU seconds": cpu}
            for count, (wall, cpu) in best.items()
        ]
    return found


def _clock(threads: int) -> Callable[[], float]:
    """CPU seconds of one thread, which other programs disturb less."""
    return time.process_time if threads == 1 else time.perf_counter


def _parts(objective: Any, places: np.ndarray, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of the attraction, of the repulsion, of both, and of a spectral direction."""
    metric = SpectralDirection()
    metric.setup(objective, places)
    objective.homotopy_parameter = 1.0
    _, gradient = objective.value_and_gradient(places)
    work: dict[str, Callable[[], Any]] = {
        "attraction": lambda: objective.attraction.total_and_slopes(places),
        "repulsion": lambda: objective.repulsion.total_and_slopes(places),
        "evaluation": lambda: objective.value_and_gradient(places),
        "spectral direction": lambda: metric.apply(gradient),
    }
    found = {name: _quickest(part, clock) for name, part in work.items()}
    return found


def _quickest(work: Callable[[], Any], clock: Callable[[], float]) -> float:
    taken = []
    for _ in range(REPETITIONS):
        begin = clock()
        work()
        taken.append(clock() - begin)
    return min(taken)


def costs_section(found: dict[str, Any], stem: Any) -> list[str]:
    """A row for each map and number of threads, and one for each fit."""
    table = [
        {
            "map's side": f"{row['side']:.0f}",
            "threads": row["threads"],
            **{
                f"{name}, ms": f"{row[name]:.1f}"
                for name in ("attraction", "repulsion", "evaluation", "spectral direction")
            },
            "CPU of an iteration, ms": f"{row['CPU']:.1f}",
        }
        for row in found["parts"]
    ]
    fits = [
        {**fit, "seconds": f"{fit['seconds']:.2f}", "CPU seconds": f"{fit['CPU seconds']:.2f}"}
        for fit in found["fits"]
    ]
    return [
        "## Costs of an evaluation",
        "",
        f"{found['data']}, {found['rows']:,} points, t-SNE with perplexity 30, exact neighbors: "
        f"maps after {ITERATIONS[0]} and {ITERATIONS[1]} iterations, the quickest of "
        f"{REPETITIONS} repetitions, by CPU seconds with one thread. An iteration has an "
        "evaluation, or now and then two, a spectral direction, and L-BFGS's sums over vectors; "
        "its CPU seconds are of the run, which uses all threads.",
        "",
        format_table(table, markdown=True),
        "",
        "`TSNE().fit`, neighbors and affinities included, of digits and of images: the quickest of "
        f"{FITS} fits with each number of threads, in turn.",
        "",
        format_table(fits, markdown=True),
        "",
    ]
