"""t-SNE against openTSNE and scikit-learn on identical affinities."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hpc.bench.embedding.data import Images

import thalweg
from thalweg.data import Dataset
from thalweg.parallel import MPI, Layout
from thalweg.report import draw_embedding, format_table, neighbor_preservation
from thalweg_embedding.affinities.build import entropic_affinities
from thalweg_embedding.objective import PairwiseEmbedding
from thalweg_embedding.objectives import t_sne

PERPLEXITY = 30.0

#: Most map units that a point may move in one step.  More is quicker down to openTSNE's value,
#: less gets lower later: the map grows as long as a run lasts.
STEP_CAP = 30.0

Measure = Callable[[np.ndarray], float]


def measure_rivals(images: Images, stem: Path, scikit_learn: bool) -> dict[str, Any]:
    """Time to openTSNE's final KL divergence, KL at equal time, and neighbors kept.

    Ours runs first, so that the peak memory is that of data, affinities and our run.
    """
    data = Dataset.from_array(images.values, labels=images.labels)
    entropic_affinities(Dataset.from_array(images.values[:500]), 5.0, "sparse")
    begin = time.perf_counter()
    weights = entropic_affinities(data, PERPLEXITY, "sparse")
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "affinities": time.perf_counter() - begin,
    }
    iterates: list[tuple[float, float, np.ndarray]] = []
    result, found["thalweg"] = _ours(data, weights, iterates)
    found["peak memory, GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    begin = time.perf_counter()
    picture = stem.with_name(f"{stem.name}-map.png")
    draw_embedding(picture, result.x, images.labels, title=images.name)
    found["drawing"] = time.perf_counter() - begin
    exact = t_sne(data, data.comm, weights=weights, repulsion="exact", exaggeration=1.0)

    def divergence(places: np.ndarray) -> float:
        """Exact KL divergence of a map."""
        point = exact.layout.vec_from(places)
        value = exact.value(point)
        point.destroy()
        return value

    ours = found["thalweg"]
    ours["kl"] = divergence(result.x)
    ours["preserved"] = _preserved(images, result.x)
    theirs = found["openTSNE"] = _opentsne(images, weights, divergence)
    if "kl" in theirs:
        ours["seconds to openTSNE's KL"] = _arrival(iterates, theirs["kl"], divergence)
        earlier = [entry for entry in iterates if entry[0] <= theirs["seconds"]]
        if earlier:
            ours["kl at openTSNE's time"] = divergence(earlier[-1][2].astype(float))
    if scikit_learn:
        found["scikit-learn"] = _scikit_learn(images, divergence)
    exact.destroy()
    return found


def _ours(
    data: Dataset, weights: Any, iterates: list[tuple[float, float, np.ndarray]]
) -> tuple[thalweg.Result, dict[str, Any]]:
    """Our defaults for many points, from the components that openTSNE starts from.

    Setting up is included in the time.
    """
    objective = t_sne(data, data.comm, weights=weights, init="pca")
    thalweg.minimize(objective, iterations=1)  # compiles kernels, or loads them
    objective.destroy()
    begin = time.perf_counter()
    objective = t_sne(data, data.comm, weights=weights, init="pca")
    building = time.perf_counter() - begin
    final = objective.homotopy_parameter

    def note(iterate: Any) -> None:
        if objective.homotopy_parameter == final:
            place = np.array(iterate.rows, dtype=np.float32)
            iterates.append((building + iterate.seconds, iterate.objective, place))

    result = thalweg.minimize(
        objective,
        solver="lbfgs",
        step_cap=STEP_CAP,
        step_cap_unit="absolute",
        iterations=300,
        decrease=1e-6,
        callback=note,
    )
    seconds = time.perf_counter() - begin
    return result, {
        "seconds": seconds,
        "evaluations": result.evaluations,
        "extent": _extent(objective, result),
        "curve": [(entry[0], float(entry[1])) for entry in iterates],
    }


def _extent(objective: PairwiseEmbedding, result: thalweg.Result) -> float:
    point = objective.layout.vec_from(result.x)
    extent = objective.length_scale(point)
    point.destroy()
    objective.destroy()
    return float(extent)


def _arrival(
    iterates: list[tuple[float, float, np.ndarray]], goal: float, divergence: Measure
) -> float | None:
    """Seconds at the first iterate whose exact KL divergence is no larger than ``goal``.

    Values fall from iterate to iterate, so that bisection finds it.
    """
    if not iterates or divergence(iterates[-1][2].astype(float)) > goal:
        return None
    low, high = 0, len(iterates) - 1
    while low < high:
        middle = (low + high) // 2
        if divergence(iterates[middle][2].astype(float)) <= goal:
            high = middle
        else:
            low = middle + 1
    return iterates[high][0]


def _preserved(images: Images, places: np.ndarray) -> float:
    layout = Layout(MPI.COMM_SELF, len(places), places.shape[1])
    return float(neighbor_preservation(images.values, places, layout))


def _opentsne(images: Images, weights: Any, divergence: Measure) -> dict[str, Any]:
    try:
        import openTSNE
    except ImportError:
        return {"missing": "openTSNE is not installed"}
    begin = time.perf_counter()
    openTSNE.affinity.PerplexityBasedNN(images.values, perplexity=PERPLEXITY, n_jobs=-1)
    own = time.perf_counter() - begin
    affinities = openTSNE.affinity.PrecomputedAffinities(weights, normalize=True)
    start = openTSNE.initialization.pca(images.values, random_state=0)
    begin = time.perf_counter()
    places = openTSNE.TSNEEmbedding(start, affinities, n_jobs=-1, negative_gradient_method="fft")
    places = places.optimize(n_iter=250, exaggeration=12, momentum=0.5)
    places = places.optimize(n_iter=500, momentum=0.8)
    seconds = time.perf_counter() - begin
    final = np.asarray(places, dtype=float)
    return {
        "own affinities": own,
        "seconds": seconds,
        "kl": divergence(final),
        "preserved": _preserved(images, final),
    }


def _scikit_learn(images: Images, divergence: Measure) -> dict[str, Any]:
    from sklearn.manifold import TSNE

    begin = time.perf_counter()
    places = TSNE(perplexity=PERPLEXITY, init="pca", random_state=0).fit_transform(images.values)
    seconds = time.perf_counter() - begin
    final = np.asarray(places, dtype=float)
    return {
        "data to map": seconds,
        "kl": divergence(final),
        "preserved": _preserved(images, final),
    }


def rivals_section(found: dict[str, Any], stem: Path) -> list[str]:
    """The table, and what it says of the goals."""
    ours, theirs = found["thalweg"], found["openTSNE"]
    table = [
        {
            "program": "thalweg, at openTSNE's KL",
            "optimization, s": ours.get("seconds to openTSNE's KL"),
            "exact KL": theirs.get("kl"),
            "neighbors kept": None,
        },
        {
            "program": "thalweg, at openTSNE's time",
            "optimization, s": theirs.get("seconds"),
            "exact KL": ours.get("kl at openTSNE's time"),
            "neighbors kept": None,
        },
        {
            "program": "thalweg, at its end",
            "optimization, s": ours["seconds"],
            "exact KL": ours["kl"],
            "neighbors kept": ours["preserved"],
        },
    ]
    if "kl" in theirs:
        table.append(
            {
                "program": "openTSNE",
                "optimization, s": theirs["seconds"],
                "exact KL": theirs["kl"],
                "neighbors kept": theirs["preserved"],
            }
        )
    if "scikit-learn" in found:
        learn = found["scikit-learn"]
        table.append(
            {
                "program": "scikit-learn (with its affinities)",
                "optimization, s": learn["data to map"],
                "exact KL": learn["kl"],
                "neighbors kept": learn["preserved"],
            }
        )
    lines = [
        "## t-SNE on identical affinities",
        "",
        f"{found['data']}, {found['rows']:,} points, perplexity {PERPLEXITY:g}, exact neighbors; "
        "openTSNE: 250 + 500 iterations with FFT interpolation from principal components; ours: "
        "the same components, L-BFGS with the spectral direction, its set-up included. The KL "
        "divergences are exact, over all pairs.",
        "",
        format_table(table, markdown=True),
        "",
    ]
    return [*lines, *_statements(found), "", f"![map]({stem.name}-map.png)", ""]


def _statements(found: dict[str, Any]) -> list[str]:
    ours, theirs = found["thalweg"], found["openTSNE"]
    arrival = ours.get("seconds to openTSNE's KL")
    lines = [
        f"- Affinities took {found['affinities']:.1f} s"
        + (
            f", openTSNE's own from approximate neighbors {theirs['own affinities']:.1f} s."
            if "own affinities" in theirs
            else "."
        ),
        f"- Peak memory of data, affinities and our run: {found['peak memory, GiB']:.2f} GiB.",
    ]
    if arrival is not None:
        whole = found["affinities"] + arrival + found["drawing"]
        rival = theirs["own affinities"] + theirs["seconds"] + found["drawing"]
        lines += [
            "- From affinities to openTSNE's final KL divergence: "
            f"1/{theirs['seconds'] / arrival:.1f} of its time.",
            f"- From data to a picture of that KL divergence: {whole:.1f} s against {rival:.1f} s, "
            f"1/{rival / whole:.1f}.",
        ]
    return lines
