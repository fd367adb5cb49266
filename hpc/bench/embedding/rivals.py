"""t-SNE against openTSNE and scikit-learn on identical affinities."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from hpc.bench.embedding.data import Images

import thalweg
from thalweg.data import Dataset
from thalweg.parallel import MPI, Layout
from thalweg.report import draw_embedding, neighbour_preservation
from thalweg_embedding.affinities.build import entropic_affinities
from thalweg_embedding.objectives import t_sne

PERPLEXITY = 30.0


def measure_rivals(images: Images, stem: Path, slow: bool) -> dict[str, Any]:
    """Time to openTSNE's final KL divergence, KL at equal time, and neighbours kept."""
    data = Dataset.from_array(images.values, labels=images.labels)
    begin = time.perf_counter()
    weights = entropic_affinities(data, PERPLEXITY, "sparse")
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "affinities": time.perf_counter() - begin,
    }
    exact = t_sne(data, data.comm, weights=weights, repulsion="exact", exaggeration=1.0)

    def kl(places: np.ndarray) -> float:
        """Exact KL divergence of a map."""
        point = exact.layout.vec_from(places)
        value = exact.value(point)
        point.destroy()
        return value

    objective = t_sne(data, data.comm, weights=weights, init="pca")
    # Kernels are compiled, or loaded, before the clock starts.
    thalweg.minimize(objective, iterations=1)
    begin = time.perf_counter()
    result = thalweg.minimize(
        objective,
        solver="lbfgs",
        step_cap=50.0,
        step_cap_unit="absolute",
        iterations=300,
        decrease=1e-6,
    )
    trace = result.trace
    found["thalweg"] = {
        "seconds": time.perf_counter() - begin,
        "kl": kl(result.x),
        "evaluations": result.evaluations,
        "preserved": _preserved(images, result.x),
        "curve": [
            [float(s), float(v), float(strength)]
            for s, v, strength in zip(
                trace["seconds"],
                trace["objective"],
                trace["lambda"] if "lambda" in trace.columns else np.ones(len(trace)),
                strict=True,
            )
        ],
    }
    draw_embedding(
        stem.with_name(f"{stem.name}-map.png"), result.x, images.labels, title=images.name
    )
    found["openTSNE"] = _opentsne(images, weights, kl)
    if slow is False:
        found["scikit-learn"] = _scikit_learn(images, kl)
    found["peak memory, GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    goal = found["openTSNE"].get("kl")
    if goal is not None:
        reached = [
            s for s, v, strength in found["thalweg"]["curve"] if strength == 1.0 and v <= goal
        ]
        found["thalweg"]["seconds to openTSNE's KL"] = min(reached) if reached else None
    return found


def _preserved(images: Images, places: np.ndarray) -> float:
    layout = Layout(MPI.COMM_SELF, len(places), places.shape[1])
    return float(neighbour_preservation(images.values, places, layout))


def _opentsne(images: Images, weights: Any, kl: Any) -> dict[str, Any]:
    try:
        import openTSNE
    except ImportError:
        return {"missing": "openTSNE is not installed"}
    affinities = openTSNE.affinity.PrecomputedAffinities(weights, normalize=True)
    start = openTSNE.initialization.pca(images.values, random_state=0)
    begin = time.perf_counter()
    places = openTSNE.TSNEEmbedding(start, affinities, n_jobs=-1, negative_gradient_method="fft")
    places = places.optimize(n_iter=250, exaggeration=12, momentum=0.5)
    places = places.optimize(n_iter=500, momentum=0.8)
    seconds = time.perf_counter() - begin
    final = np.asarray(places, dtype=float)
    return {"seconds": seconds, "kl": kl(final), "preserved": _preserved(images, final)}


def _scikit_learn(images: Images, kl: Any) -> dict[str, Any]:
    from sklearn.manifold import TSNE

    begin = time.perf_counter()
    places = TSNE(perplexity=PERPLEXITY, init="pca", random_state=0).fit_transform(images.values)
    seconds = time.perf_counter() - begin
    final = np.asarray(places, dtype=float)
    return {
        "seconds (affinities included)": seconds,
        "kl": kl(final),
        "preserved": _preserved(images, final),
    }
