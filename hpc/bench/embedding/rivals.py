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
from hpc.bench.embedding.pictures import draw_maps, draw_trajectories, photograph_page

import thalweg
from thalweg.data import Dataset
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.parallel import MPI, Layout
from thalweg.workbench.report import draw_embedding, format_table
from thalweg_embedding import map_quality
from thalweg_embedding.affinities.affinities_from_data import affinities_of, tied_together
from thalweg_embedding.defaults import NEIGHBORS_PER_PERPLEXITY
from thalweg_embedding.objectives import t_sne

PERPLEXITY = 30.0

#: What is said of a map.
MEASURES = (
    "recall",
    "accuracy",
    "trustworthiness",
    "center_correlation",
    "nearest_distance",
    "widest_side",
)

#: What a map must have to be as good as another, beside the KL divergence.
GOALS = ("recall", "accuracy")

#: Maps of ours that are measured on the way, and iterations after which others' are.
MAPS_ON_THE_WAY = 10
ITERATIONS_ON_THE_WAY = (250, 500)

#: Seconds, and those that all threads spent: other programs disturb them less.
Spent = dict[str, float]

#: What was spent on a map, and its rows.
Iterate = tuple[Spent, np.ndarray]

Judge = Callable[..., dict[str, float]]


def measure_rivals(images: Images, stem: Path, programs: tuple[str, ...]) -> dict[str, Any]:
    """Seconds and quality of each program's map, and where ours is as good as theirs.

    Ours runs first, so that the peak memory is that of data, affinities and our run.
    """
    found, maps = _measured(images, programs)
    draw_embedding(
        stem.with_name(f"{stem.name}-map.png"),
        maps["thalweg"],
        images.labels,
        title=images.name,
        caption=_caption(found),
    )
    draw_trajectories(_curves(found), stem, "trajectories")
    return found


def measure_threads(images: Images, programs: tuple[str, ...]) -> dict[str, Any]:
    """The same with all threads of this process, without pictures."""
    found, _ = _measured(images, programs)
    return {**found, "threads": numba.get_num_threads()}


def measure_set(name: str, images: Images, stem: Path, programs: tuple[str, ...]) -> dict[str, Any]:
    """The same of another set."""
    found, maps = _measured(images, programs)
    captions = {program: _caption(found, program) for program in maps}
    draw_maps(maps, images.labels, captions, stem, f"set-{name}")
    draw_trajectories(_curves(found), stem, f"trajectories-{name}")
    if name == "digits":
        photograph_page(
            stem.with_name(f"{stem.name}-page.png"),
            maps["thalweg"],
            labels=images.labels,
            title=images.name,
            caption=_caption(found),
            thumbnails=images.values.reshape(-1, 8, 8),
        )
    return found


def _caption(found: dict[str, Any], program: str = "thalweg") -> str:
    divergence = found["programs"][program]["kl"]
    return f"N = {found['rows']:,} · perplexity {PERPLEXITY:g} · KL divergence {divergence:.4g}"


def _curves(found: dict[str, Any]) -> dict[str, list[dict[str, float]]]:
    return {name: facts["curve"] for name, facts in found["programs"].items() if "curve" in facts}


def _measured(
    images: Images, programs: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What each program took, how good its maps are, and where ours is as good; the maps."""
    data = Dataset.from_array(images.values, labels=images.labels)
    few = Dataset.from_array(images.values[:1500])
    options: dict[str, Any] = {"perplexity": PERPLEXITY, "graph": "sparse"}
    _ours(few, affinities_of(few, **options).weights)  # compiles
    begin = time.perf_counter()
    weights = affinities_of(data, **options).weights
    found: dict[str, Any] = {
        "data": images.name,
        "rows": len(images.values),
        "affinities": time.perf_counter() - begin,
        "programs": {},
    }
    objective = t_sne(data, data.comm, weights=weights, early_exaggeration=1.0)

    def judge(places: np.ndarray, measures: tuple[str, ...] = MEASURES) -> dict[str, float]:
        """KL divergence to a millionth, and the quality of a map."""
        point = np.ascontiguousarray(places, dtype=float)
        divergence = objective.metrics(point)["kl_divergence"]
        quality = map_quality(data, places)
        return {"kl": divergence, **{name: quality[name] for name in measures if name in quality}}

    def curve(iterates: list[Iterate]) -> list[dict[str, float]]:
        return [{**spent, **judge(places, GOALS)} for spent, places in iterates]

    ours, iterates = _ours(data, weights)
    found["peak memory, GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    maps = {"thalweg": iterates[-1][1]}
    results = found["programs"]
    some = np.unique(np.linspace(0, len(iterates) - 1, MAPS_ON_THE_WAY + 1).astype(int)[1:])
    shown = [iterates[number] for number in some]
    results["thalweg"] = {**ours, **judge(maps["thalweg"]), "curve": curve(shown)}
    for name in programs:
        try:
            made = RIVALS[name](images, weights)
        except ImportError:
            results[name] = {"missing": f"{name} is not installed"}
            continue
        spent, maps[name] = made[-1]
        theirs = results[name] = {**spent, **judge(maps[name]), "curve": curve(made)}
        theirs["thalweg as good"] = _arrival(iterates, theirs, judge)
        until = [each for each in iterates if each[0]["CPU seconds"] <= spent["CPU seconds"]]
        if until:
            theirs["thalweg then"] = {**until[-1][0], **judge(until[-1][1])}
    return found, maps


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

    One in sixteen of the maps is looked at in turn, and those before the first that is as good by
    bisection: maps become worse for a while where lambda falls.
    """

    def as_good(number: int) -> bool:
        found = judge(iterates[number][1], GOALS)
        better = all(found[name] >= theirs[name] for name in GOALS if name in theirs)
        return better and found["kl"] <= theirs["kl"]

    some = np.unique(np.linspace(0, len(iterates) - 1, 17).astype(int)).tolist()
    high = next((number for number in some if as_good(number)), None)
    if high is None:
        return None
    low = max((number + 1 for number in some if number < high), default=0)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if as_good(middle) else (middle + 1, high)
    return {**iterates[high][0], **judge(iterates[high][1])}


def _h2pack(images: Images, weights: Any) -> list[Iterate]:
    """Maps on the way are those of further runs, of fewer iterations."""
    from tsne_h2pack import TSNE as Rival

    rows = len(images.values)
    k = min(int(NEIGHBORS_PER_PERPLEXITY * PERPLEXITY), rows - 1)
    layout = Layout(MPI.COMM_SELF, rows, images.values.shape[1])
    neighbors, squared = nearest_neighbors(layout, np.asarray(images.values, dtype=float), k)
    starts = np.arange(0, rows * k + 1, k)
    # It drops distances of 0, and refuses rows that then have few.
    distances = np.sqrt(np.maximum(squared, 1e-12)).ravel()
    graph = scipy.sparse.csr_matrix((distances, neighbors.ravel(), starts))
    made: list[Iterate] = []
    for iterations in (*ITERATIONS_ON_THE_WAY, None):
        given = {} if iterations is None else {"max_iter": iterations}
        program = Rival(
            perplexity=PERPLEXITY,
            metric="precomputed",
            random_state=0,
            n_jobs=numba.get_num_threads(),
            **given,
        )
        since = _stopwatch()
        places = np.asarray(program.fit_transform(graph), dtype=float)
        made.append((since(), places))
    return made


def _opentsne(images: Images, weights: Any) -> list[Iterate]:
    import openTSNE

    affinities = openTSNE.affinity.PrecomputedAffinities(weights, normalize=True)
    start = openTSNE.initialization.pca(images.values, random_state=0)
    made: list[Iterate] = []
    since = _stopwatch()

    def note(iteration: int, error: float, places: Any) -> None:
        made.append((since(), np.array(places, dtype=float)))

    places = openTSNE.TSNEEmbedding(
        start,
        affinities,
        n_jobs=numba.get_num_threads(),
        negative_gradient_method="fft",
        callbacks=note,
        callbacks_every_iters=125,
    )
    places = places.optimize(n_iter=250, exaggeration=12, momentum=0.5)
    places = places.optimize(n_iter=500, momentum=0.8)
    return [*made, (since(), np.asarray(places, dtype=float))]


def _scikit_learn(images: Images, weights: Any) -> list[Iterate]:
    from sklearn.manifold import TSNE as Rival

    since = _stopwatch()
    places = Rival(perplexity=PERPLEXITY, init="pca", random_state=0).fit_transform(images.values)
    return [(since(), np.asarray(places, dtype=float))]


#: What embeds by another program: what was spent on maps on the way and the last, and these.
RIVALS: dict[str, Callable[[Images, Any], list[Iterate]]] = {
    "tsne-h2pack": _h2pack,
    "openTSNE": _opentsne,
    "scikit-learn": _scikit_learn,
}


#: What the pictures of trajectories show.
ON_THE_WAY = "maps on the way, by CPU seconds of optimization"


def rivals_section(found: dict[str, Any], stem: Path) -> list[str]:
    """The table of all programs, and of our map where it is as good as each of theirs."""
    programs = found["programs"]
    table = _table(programs)
    missed = [name for name, facts in programs.items() if facts.get("thalweg as good", 0) is None]
    lines = [
        "## t-SNE on identical affinities",
        "",
        f"{found['data']}, {found['rows']:,} points, perplexity {PERPLEXITY:g}, exact neighbors, "
        "every program with its defaults (scikit-learn with affinities of its own, and their time; "
        "openTSNE 250 + 500 iterations by FFT interpolation from principal components). Ours: "
        "what `TSNE()` does, its set-up included, compiling left out. KL divergences are of the "
        "same affinities, to a millionth; 15 neighbors of 3,000 points are compared, where an "
        "accuracy of 0.97 has a standard error of 0.003. *As good*: our first map with their KL "
        "divergence, recall and accuracy, or better ones.",
        "",
        format_table(table, markdown=True),
        "",
        f"- Affinities took {found['affinities']:.1f} s.",
        f"- Peak memory of data, affinities and our run: {found['peak memory, GiB']:.2f} GiB.",
    ]
    lines += [f"- No map of ours was in all as good as that of {name}." for name in missed]
    lines += [f"- {facts['missing']}." for facts in programs.values() if "missing" in facts]
    pictures = [f"![map]({stem.name}-map.png)", ""]
    if _curves(found):
        pictures += [f"![{ON_THE_WAY}]({stem.name}-trajectories.png)", ""]
    return [*lines, "", *pictures]


def _table(programs: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of all programs, and of our map where it is as good as each, and after its time."""
    table = [_row(f"{name}, at its end", facts) for name, facts in programs.items()]
    for name, facts in programs.items():
        reached = facts.get("thalweg as good")
        if reached:
            table.append(_row(f"thalweg, in all as good as {name}", reached))
        if "thalweg then" in facts:
            table.append(_row(f"thalweg, after the time of {name}", facts["thalweg then"]))
    return table


def threads_section(found: dict[str, Any], stem: Path) -> list[str]:
    """What matters of the table of all programs, with several threads."""
    shown = ("program", "threads", "optimization, s", "CPU, s", "KL", "recall", "accuracy")
    table = [
        {name: row[name] for name in shown}
        for row in ({**row, "threads": found["threads"]} for row in _table(found["programs"]))
    ]
    return [
        f"## t-SNE on identical affinities, {found['threads']} threads",
        "",
        f"{found['data']}, {found['rows']:,} points: as in the table of one thread, but that every "
        f"program has {found['threads']}. *After the time* of another counts CPU seconds.",
        "",
        format_table(table, markdown=True),
        "",
        f"Affinities took {found['affinities']:.1f} s.",
        "",
    ]


def sets_section(found: dict[str, Any], stem: Path) -> list[str]:
    """One table of all sets and programs, and a picture of each set's maps."""
    lines = [
        "## t-SNE on several sets",
        "",
        f"As above, perplexity {PERPLEXITY:g}, exact neighbors, identical affinities, every "
        "program with its defaults. By generated branches and manifolds no default was chosen.",
        "",
    ]
    table, compared, pictures = [], [], []
    for name in (name for name in SETS if name in found["sets"]):
        facts = found["sets"][name]
        for program, measured in facts["programs"].items():
            if "missing" not in measured:
                set_of = f"{facts['data']}, {facts['rows']:,}"
                table.append({"set": set_of, **_row(program, measured)})
        if _curves(facts):  # records from before do not compare
            compared.append({"set": set_of, **_shares(facts["programs"])})
        shown = [(f"set-{name}", "maps"), (f"trajectories-{name}", ON_THE_WAY)]
        for picture, what in shown if _curves(facts) else shown[:1]:
            pictures += [f"![{facts['data']}: {what}]({stem.name}-{picture}.png)", ""]
    shares = (
        "CPU seconds until our map is in all, KL divergence, recall and accuracy, as good as a "
        "program's at its end, and which share of its own CPU seconds that is; a dash: never. "
        "*Recall above*: ours at the end less that of the better one of them."
    )
    return [
        *lines,
        format_table(table, markdown=True),
        "",
        shares,
        "",
        format_table(compared, markdown=True),
        "",
        *pictures,
    ]


def _shares(programs: dict[str, Any]) -> dict[str, Any]:
    """How soon ours is as good as each of the others, and what its recall is above theirs."""
    row: dict[str, Any] = {}
    others = {name: facts for name, facts in programs.items() if "thalweg as good" in facts}
    for name, facts in others.items():
        reached = facts["thalweg as good"]
        seconds = None if reached is None else reached["CPU seconds"]
        row[f"as good as {name}, s"] = seconds
        row[f"of the time of {name}"] = None if seconds is None else seconds / facts["CPU seconds"]
    best = max((facts["recall"] for facts in others.values()), default=None)
    row["recall above"] = None if best is None else programs["thalweg"]["recall"] - best
    return row


def _row(program: str, facts: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "program": program,
        "optimization, s": facts.get("seconds"),
        "CPU, s": facts.get("CPU seconds"),
        "KL": facts.get("kl"),
    }
    return {**row, **{name.replace("_", " "): facts.get(name) for name in MEASURES}}
