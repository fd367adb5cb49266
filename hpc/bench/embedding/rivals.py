"""t-SNE as users get it against other programs on the same affinities."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse
from hpc.bench.embedding.data import SETS, Images
from hpc.bench.embedding.pictures import draw_maps

import thalweg
from thalweg.data import Dataset
from thalweg.parallel import MPI, Layout, nearest_neighbors
from thalweg.report import draw_embedding, format_table
from thalweg_embedding import TSNE, map_quality
from thalweg_embedding.affinities.build import (
    NEIGHBORS_PER_PERPLEXITY,
    entropic_affinities,
    tied_together,
)
from thalweg_embedding.objectives import t_sne

PERPLEXITY = 30.0

#: What is said of a map.
MEASURES = ("recall", "accuracy", "trustworthiness", "center_correlation", "widest_side")

#: Seconds, and those that all threads spent: other programs disturb them less.
Spent = dict[str, float]

#: What was spent on a map, and its rows.
Iterate = tuple[Spent, np.ndarray]

Judge = Callable[[np.ndarray], dict[str, float]]


def measure_rivals(images: Images, stem: Path, programs: tuple[str, ...]) -> dict[str, Any]:
    """Seconds and quality of each program's map, and where ours is as good as theirs.

    Ours runs first, so that the peak memory is that of data, affinities and our run.
    """
    found, maps, iterates, judge = _measured(images, programs)
    draw_embedding(
        stem.with_name(f"{stem.name}-map.png"), maps["thalweg"], images.labels, title=images.name
    )
    for theirs in found["programs"].values():
        if "kl" in theirs and theirs is not found["programs"]["thalweg"]:
            theirs["thalweg as good"] = _arrival(iterates, theirs, judge)
    return found


def measure_set(name: str, images: Images, stem: Path, programs: tuple[str, ...]) -> dict[str, Any]:
    """The same of another set, without the search for our map that is as good as theirs."""
    found, maps, _, _ = _measured(images, programs)
    draw_maps(maps, images.labels, stem, f"set-{name}")
    return found


def _measured(
    images: Images, programs: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, np.ndarray], list[Iterate], Judge]:
    """What each program took and how good its map is; the maps; our iterates; the measure."""
    data = Dataset.from_array(images.values, labels=images.labels)
    TSNE(max_iter=150).fit(images.values[:1500])  # compiles
    begin = time.perf_counter()
    weights = entropic_affinities(data, PERPLEXITY, "sparse")
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "affinities": time.perf_counter() - begin,
        "programs": {},
    }
    objective = t_sne(data, data.comm, weights=weights, exaggeration=1.0)

    def judge(places: np.ndarray) -> dict[str, float]:
        """KL divergence to a millionth, and the quality of a map."""
        point = objective.layout.vec_from(np.asarray(places, dtype=float))
        divergence = objective.metrics(point)["kl_divergence"]
        point.destroy()
        quality = map_quality(data, places)
        return {"kl": divergence, **{name: quality[name] for name in MEASURES if name in quality}}

    ours, iterates = _ours(data, weights)
    found["peak memory, GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    maps = {"thalweg": iterates[-1][1]}
    results = found["programs"]
    results["thalweg"] = {**ours, **judge(maps["thalweg"])}
    for name in programs:
        try:
            maps[name], spent = RIVALS[name](images, weights)
        except ImportError:
            results[name] = {"missing": f"{name} is not installed"}
            continue
        results[name] = {**spent, **judge(maps[name])}
    return found, maps, iterates, judge


def _ours(data: Dataset, weights: Any) -> tuple[dict[str, Any], list[Iterate]]:
    """What ``TSNE()`` does with affinities, and its maps; setting up is included in the time.

    It ties components of the affinities together; judged are the affinities as they were.
    """
    since = _stopwatch()
    objective = t_sne(data, data.comm, weights=tied_together(data.layout, weights)[0])
    iterates: list[Iterate] = []

    def note(iterate: Any) -> None:
        iterates.append((since(), np.array(iterate.rows, dtype=np.float32)))

    result = thalweg.minimize(objective, callback=note)
    objective.destroy()
    return {**iterates[-1][0], "evaluations": result.evaluations}, iterates


def _stopwatch() -> Callable[[], Spent]:
    begin, cpu = time.perf_counter(), time.process_time()
    return lambda: {
        "seconds": time.perf_counter() - begin,
        "CPU seconds": time.process_time() - cpu,
    }


def _arrival(
    iterates: list[Iterate], theirs: dict[str, float], judge: Judge
) -> dict[str, float] | None:
    """Our first map whose divergence, recall and accuracy are all as good as theirs.

    It is sought by bisection, as if maps became better from iterate to iterate.
    """

    def as_good(number: int) -> bool:
        found = judge(iterates[number][1])
        better = found["recall"] >= theirs["recall"] and found["accuracy"] >= theirs["accuracy"]
        return better and found["kl"] <= theirs["kl"]

    low, high = 0, len(iterates) - 1
    if not as_good(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if as_good(middle) else (middle + 1, high)
    return {**iterates[high][0], **judge(iterates[high][1])}


def _h2pack(images: Images, weights: Any) -> tuple[np.ndarray, Spent]:
    from tsne_h2pack import TSNE as Rival

    rows, k = len(images.values), int(NEIGHBORS_PER_PERPLEXITY * PERPLEXITY)
    layout = Layout(MPI.COMM_SELF, rows, images.values.shape[1])
    neighbors, squared = nearest_neighbors(layout, np.asarray(images.values, dtype=float), k)
    starts = np.arange(0, rows * k + 1, k)
    # It drops distances of 0, and refuses rows that then have few.
    distances = np.sqrt(np.maximum(squared, 1e-12)).ravel()
    graph = scipy.sparse.csr_matrix((distances, neighbors.ravel(), starts))
    program = Rival(
        perplexity=PERPLEXITY,
        metric="precomputed",
        random_state=0,
        n_jobs=numba.get_num_threads(),
    )
    since = _stopwatch()
    places = program.fit_transform(graph)
    return np.asarray(places, dtype=float), since()


def _opentsne(images: Images, weights: Any) -> tuple[np.ndarray, Spent]:
    import openTSNE

    affinities = openTSNE.affinity.PrecomputedAffinities(weights, normalize=True)
    start = openTSNE.initialization.pca(images.values, random_state=0)
    since = _stopwatch()
    places = openTSNE.TSNEEmbedding(
        start, affinities, n_jobs=numba.get_num_threads(), negative_gradient_method="fft"
    )
    places = places.optimize(n_iter=250, exaggeration=12, momentum=0.5)
    places = places.optimize(n_iter=500, momentum=0.8)
    return np.asarray(places, dtype=float), since()


def _scikit_learn(images: Images, weights: Any) -> tuple[np.ndarray, Spent]:
    from sklearn.manifold import TSNE as Rival

    since = _stopwatch()
    places = Rival(perplexity=PERPLEXITY, init="pca", random_state=0).fit_transform(images.values)
    return np.asarray(places, dtype=float), since()


#: What embeds by another program: the map, and the seconds of its optimization.
RIVALS: dict[str, Callable[[Images, Any], tuple[np.ndarray, Spent]]] = {
    "tsne-h2pack": _h2pack,
    "openTSNE": _opentsne,
    "scikit-learn": _scikit_learn,
}


def rivals_section(found: dict[str, Any], stem: Path) -> list[str]:
    """The table of all programs, and of our map where it is as good as each of theirs."""
    programs = found["programs"]
    table = [_row(f"{name}, at its end", facts) for name, facts in programs.items()]
    for name, facts in programs.items():
        reached = facts.get("thalweg as good")
        if reached:
            table.append(_row(f"thalweg, in all as good as {name}", reached))
    missed = [name for name, facts in programs.items() if facts.get("thalweg as good", 0) is None]
    lines = [
        "## t-SNE on identical affinities",
        "",
        f"{found['data']}, {found['rows']:,} points, perplexity {PERPLEXITY:g}, exact neighbors, "
        "every program with its defaults (scikit-learn with affinities of its own, and their time; "
        "openTSNE 250 + 500 iterations by FFT interpolation from principal components). Ours: "
        "what `TSNE()` does, its set-up included, compiling left out. KL divergences are of the "
        "same affinities, to a millionth; 15 neighbors of 3,000 points are compared. *As good*: "
        "our first map with their KL divergence, recall and accuracy, or better ones.",
        "",
        format_table(table, markdown=True),
        "",
        f"- Affinities took {found['affinities']:.1f} s.",
        f"- Peak memory of data, affinities and our run: {found['peak memory, GiB']:.2f} GiB.",
    ]
    lines += [f"- At our end not as good in all as {name}." for name in missed]
    lines += [f"- {facts['missing']}." for facts in programs.values() if "missing" in facts]
    return [*lines, "", f"![map]({stem.name}-map.png)", ""]


def sets_section(found: dict[str, Any], stem: Path) -> list[str]:
    """One table of all sets and programs, and a picture of each set's maps."""
    lines = [
        "## t-SNE on several sets",
        "",
        f"As above, perplexity {PERPLEXITY:g}, exact neighbors, identical affinities, every "
        "program with its defaults. By generated branches and manifolds no default was chosen.",
        "",
    ]
    table, pictures = [], []
    for name in (name for name in SETS if name in found["sets"]):
        facts = found["sets"][name]
        for program, measured in facts["programs"].items():
            if "missing" not in measured:
                set_of = f"{facts['data']}, {facts['rows']:,}"
                table.append({"set": set_of, **_row(program, measured)})
        file = f"{stem.name}-set-{name}.png"
        pictures += [f"{facts['data']}:", "", f"![maps of {facts['data']}]({file})", ""]
    return [*lines, format_table(table, markdown=True), "", *pictures]


def _row(program: str, facts: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "program": program,
        "optimization, s": facts.get("seconds"),
        "CPU, s": facts.get("CPU seconds"),
        "KL": facts.get("kl"),
    }
    return {**row, **{name.replace("_", " "): facts.get(name) for name in MEASURES}}
