"""Defaults on sets that nobody tuned, beside openTSNE and umap-learn.

Each program runs in a process of its own, with one thread; ours in this interpreter, others in the
one that RIVALS_PYTHON names, by default this one: an environment of their own with openTSNE and
umap-learn serves (``python -m venv rivals; rivals/bin/pip install openTSNE umap-learn``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from hpc.bench.embedding.pictures import draw_maps
from hpc.bench.embedding.untuned_sets import SETS, Points
from PIL import Image
from sklearn.neighbors import NearestNeighbors

from thalweg.data import Dataset
from thalweg.workbench.report import format_table
from thalweg_embedding.affinities.affinities_from_data import affinities_of
from thalweg_embedding.objectives import t_sne
from thalweg_embedding.quality import trustworthiness

#: Sets of --quick, and the share of their rows.
QUICK, SHARE = ("docstrings", "copies", "outliers"), 0.2

#: Rows that are judged, and neighbors that are compared and that vote.
JUDGED, NEIGHBORS, VOTERS = 2_000, 15, 10

#: Columns of the table that are better high (1) or low (-1).
BETTER = {"CPU seconds": -1, "recall": 1, "trustworthiness": 1, "accuracy": 1, "KL": -1}

#: One program of each method here, and the other.
PAIRS = {"openTSNE": "thalweg TSNE", "umap-learn": "thalweg UMAP"}

#: What a short run needs, which compiles; and what the run itself needs.
PROGRAMS = {
    "thalweg TSNE": ("from thalweg_embedding import TSNE", "TSNE({})", "max_iter=2"),
    "openTSNE": ("from openTSNE import TSNE", "TSNE({})", "early_exaggeration_iter=1, n_iter=1"),
    "thalweg UMAP": ("from thalweg_embedding import UMAP", "UMAP({})", "max_iter=2"),
    "umap-learn": ("from umap import UMAP", "UMAP({})", "n_epochs=2"),
}

#: Run by itself with the folder of the data: of each set a short fit, which compiles, and one with
#: defaults.
_AROUND = """
import json, logging, sys, time, warnings
from pathlib import Path
import numpy as np, scipy.sparse
logged = []
handler = logging.Handler(logging.WARNING)
handler.emit = lambda record: logged.append("log: " + record.getMessage()[:300])
logging.getLogger().addHandler(handler)
folder, names = Path(sys.argv[1]), sys.argv[2:]
try:
    {imported}
except ImportError:
    for name in names:
        (folder / (name + ".json")).write_text(json.dumps({{"missing": "not installed"}}))
    sys.exit()
def fitted(program, values):
    made = program.fit(values)
    return np.asarray(made if isinstance(made, np.ndarray) else made.embedding_, dtype=float)
def measured(name):
    sparse = (folder / (name + ".npz")).exists()
    file = folder / (name + (".npz" if sparse else ".npy"))
    values = scipy.sparse.load_npz(file) if sparse else np.load(file)
    try:
        warnings.simplefilter("ignore")
        fitted({short}, values)
        logged.clear()
        warnings.simplefilter("default")
        begin, cpu = time.perf_counter(), time.process_time()
        places = fitted({program}, values)
        spent = time.perf_counter() - begin, time.process_time() - cpu
        np.save(folder / (name + "-places.npy"), places)
        return dict(zip(("seconds", "CPU seconds"), spent))
    except Exception as error:
        return {{"error": f"{{type(error).__name__}}: {{error}}"[:300]}}
hidden = DeprecationWarning, PendingDeprecationWarning
for name in names:
    with warnings.catch_warnings(record=True) as said:
        found = measured(name)
    kept = [one for one in said if not issubclass(one.category, hidden)]
    sentences = {{f"{{one.category.__name__}}: {{one.message}}"[:300] for one in kept}}
    found["warnings"] = sorted(sentences | set(logged))
    logged.clear()
    (folder / (name + ".json")).write_text(json.dumps(found))
    print({label!r}, name, found, file=sys.stderr, flush=True)
"""


def measure_untuned(
    chosen: tuple[str, ...],
    quick: bool,
    stem: Path,
    before: dict[str, Any],
    note: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """CPU seconds and quality of the four programs on each set; other sets keep theirs."""
    found: dict[str, Any] = {"sets": dict(before.get("sets", {})), "quick": quick}
    names = chosen or (QUICK if quick else tuple(SETS))
    sets = {name: SETS[name][0](int(SETS[name][1] * (SHARE if quick else 1.0))) for name in names}
    ran = {program: _run(program, sets) for program in PROGRAMS}
    for name, points in sets.items():
        facts, maps = _judged(points, {program: ran[program][name] for program in PROGRAMS})
        found["sets"][name] = facts
        captions = {program: _caption(facts["programs"][program]) for program in maps}
        if maps:
            draw_maps(maps, points.labels, captions, stem, f"untuned-{name}")
            file = stem.with_name(f"{stem.name}-untuned-{name}.png")
            Image.open(file).convert("RGB").quantize(96).save(file, optimize=True)
        note(found)
    return found


def _caption(facts: dict[str, Any]) -> str:
    shown = {"recall": "recall", "accuracy": "accuracy", "KL": "KL"}
    return ", ".join(f"{word} {facts[key]:.3f}" for key, word in shown.items() if key in facts)


#: What a program took and said, and its map, if it made one.
Ran = tuple[dict[str, Any], np.ndarray | None]


def _run(program: str, sets: dict[str, Points]) -> dict[str, Ran]:
    """One process, so that each program compiles once."""
    imported, call, short = PROGRAMS[program]
    texts = {"program": call.format(""), "short": call.format(short), "label": program}
    ours = program.startswith("thalweg")
    names = ("NUMBA", "OMP", "OPENBLAS")
    environment = {**os.environ, **{f"{name}_NUM_THREADS": "1" for name in names}}
    if not ours:
        environment.pop("PYTHONPATH", None)
    interpreter = sys.executable if ours else os.environ.get("RIVALS_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        for name, points in sets.items():
            if scipy.sparse.issparse(points.values):
                scipy.sparse.save_npz(f"{folder}/{name}.npz", points.values)
            else:
                np.save(f"{folder}/{name}.npy", points.values)
        text = _AROUND.format(imported=imported, **texts)
        subprocess.run([interpreter, "-c", text, folder, *sets], env=environment, check=False)
        return {name: _read(Path(folder), name) for name in sets}


def _read(folder: Path, name: str) -> Ran:
    facts, places = folder / f"{name}.json", folder / f"{name}-places.npy"
    if not facts.exists():
        return {"error": "the process ended before this set"}, None
    return json.loads(facts.read_text()), np.load(places) if places.exists() else None


def _judged(
    points: Points, programs: dict[str, Ran]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the programs took, said and are worth; their maps."""
    values = points.values
    dense = values.toarray() if scipy.sparse.issparse(values) else values
    judge = _judge(np.ascontiguousarray(dense, dtype=float), points.labels)
    copies = len(dense) - len(np.unique(dense, axis=0))
    maps: dict[str, np.ndarray] = {}
    measured = {}
    for program, (facts, places) in programs.items():
        measured[program] = dict(facts)
        if places is None:
            continue
        lost = ~np.isfinite(places).all(axis=1)
        if lost.any():
            measured[program]["not placed"] = int(lost.sum())
            places[lost] = places[~lost].mean(axis=0)
        maps[program] = places
        measured[program] |= judge(places, "TSNE" in program)
    shape = list(values.shape)
    return {"data": points.name, "shape": shape, "copies": copies, "programs": measured}, maps


def _judge(
    values: np.ndarray, labels: np.ndarray | None
) -> Callable[[np.ndarray, bool], dict[str, float]]:
    """Judges maps: a neighbor in the map counts if the 15th nearest in the data is no nearer.

    So each of many copies counts as a neighbor of the others.
    """
    data = Dataset.from_array(values)
    weights = affinities_of(data, perplexity=30.0, graph="sparse").weights
    objective = t_sne(data, data.comm, weights=weights, early_exaggeration=1.0)
    count = min(JUDGED, len(values))
    rows = np.sort(np.random.default_rng(0).choice(len(values), count, replace=False))

    def nearest(of: np.ndarray, neighbors: int) -> np.ndarray:
        search = NearestNeighbors(n_neighbors=neighbors + 1).fit(of)
        found = search.kneighbors(of[rows], return_distance=False)
        others = found != rows[:, None]
        order = np.argsort(~others, axis=1, kind="stable")[:, :neighbors]
        return np.asarray(np.take_along_axis(found, order, 1))

    def distances(numbers: np.ndarray) -> np.ndarray:
        pairs = zip(values[rows], numbers, strict=True)
        return np.array([np.linalg.norm(values[near] - row, axis=1) for row, near in pairs])

    reach = distances(nearest(values, NEIGHBORS)).max(axis=1, keepdims=True) * (1.0 + 1e-9)

    def judge(places: np.ndarray, divergence: bool) -> dict[str, float]:
        found = {"recall": float((distances(nearest(places, NEIGHBORS)) <= reach).mean())}
        found["trustworthiness"] = trustworthiness(values, places, data.layout, NEIGHBORS, 0)
        if labels is not None:
            votes = np.zeros((len(rows), labels.max() + 1))
            voters = labels[nearest(places, VOTERS)]
            np.add.at(votes, (np.arange(len(rows))[:, None], voters), 1.0)
            found["accuracy"] = float((votes.argmax(axis=1) == labels[rows]).mean())
        if divergence:
            point = np.ascontiguousarray(places, dtype=float)
            found["KL"] = float(objective.metrics(point)["kl_divergence"])
        low, high = np.quantile(places, (0.01, 0.99), axis=0)
        found["side to middle"] = float(np.ptp(places, axis=0).max() / (high - low).max())
        return found

    return judge


def untuned_section(found: dict[str, Any], stem: Path) -> list[str]:
    """One table, where rivals win, what the programs said, and the pictures."""
    table: list[dict[str, Any]] = []
    wins, said, pictures = [], [], []
    for name in (name for name in SETS if name in found["sets"]):
        facts = found["sets"][name]
        rows, columns = facts["shape"]
        for program, measured in facts["programs"].items():
            said += _said(name, program, measured)
            cells = {column: measured.get(column) for column in (*BETTER, "side to middle")}
            table.append({"set": f"{name}, {rows:,} × {columns:,}", "program": program, **cells})
        wins += _wins(name, facts["programs"])
        seen = f" {SEEN[name]}" if name in SEEN and not found["quick"] else ""
        of_them = f" {facts['copies']:,} of the rows are copies." if facts["copies"] else ""
        sentence = facts["data"]
        pictures += [f"**{name}**: {sentence}.{of_them}{seen}", ""]
        pictures += [f"![{name}: four maps]({stem.name}-untuned-{name}.png)", ""]
    return [
        "## Defaults on sets that nobody tuned",
        "",
        "`TSNE()` and `UMAP()` here beside `TSNE()` of openTSNE and `UMAP()` of umap-learn, all "
        "from the same rows as they are, without a parameter; each program in a process of its "
        "own with one thread, after a short run of each set that compiles. CPU seconds are from "
        f"data to map. *Recall*: of the {NEIGHBORS} nearest in the map, the share that is as near "
        f"in the data as the {NEIGHBORS} nearest there, so that copies count alike; *accuracy*: by "
        f"the votes of the {VOTERS} nearest in the map; *KL*: of the two t-SNEs by the same sparse "
        "affinities, perplexity 30; *side to middle*: the map's widest side by that of the middle "
        "98 % of points, large where single points lie far outside. Recall and accuracy are of "
        f"{JUDGED:,} rows at most.",
        "",
        format_table(table, markdown=True),
        "",
        "Where a rival is better than the same method here; a row of 2,000 is 0.0005 of accuracy:",
        "",
        *(wins or ["- nowhere"]),
        "",
        "What the programs said:",
        "",
        *(said or ["- nothing"]),
        "",
        *pictures,
    ]


def _wins(name: str, programs: dict[str, Any]) -> list[str]:
    """A line for each rival that is better in a column of a set."""
    lines = []
    for rival, own in PAIRS.items():
        theirs, ours = programs[rival], programs[own]
        columns = [
            f"{column} {theirs[column]:.4f} to {ours[column]:.4f}"
            for column, sign in BETTER.items()
            if column in theirs and column in ours and sign * (theirs[column] - ours[column]) > 0
        ]
        if columns:
            lines.append(f"- *{name}*, {rival}: {', '.join(columns)}")
    return lines


def _said(name: str, program: str, measured: dict[str, Any]) -> list[str]:
    sentences = [" ".join(sentence.split()) for sentence in measured.get("warnings", ())]
    if "error" in measured:
        sentences.append(" ".join(measured["error"].split()))
    if "not placed" in measured:
        sentences.append(f"{measured['not placed']:,} points have no place (not a number)")
    if "missing" in measured:
        sentences.append(measured["missing"])
    return [f"- *{name}*, {program}: {sentence}" for sentence in sentences]


#: What is seen in the recorded pictures.
SEEN = {
    "docstrings": "scipy, scikit-learn and matplotlib (green, purple, pink) lie at the rim, numba "
    "and the standard library (olive, light blue) side by side in the middle; both t-SNEs set a "
    "small part of matplotlib apart, and no point lies far outside in any map.",
    "table": "All four show the seven groups, with the same few rows on the wrong side; nothing is "
    "torn.",
    "counts": "All four show the groups whole; rows of the rarest kinds sit at the rims of others, "
    "one of them alone between groups in thalweg's t-SNE.",
    "series": "Sines, squares and sawteeth (blue, orange, green) share one cloud in all four, "
    "since the phase decides who is near; `UMAP()` here tears the steps (gray) into three parts "
    "far from each other, umap-learn into two, and the t-SNEs keep one arc.",
    "copies": "thalweg draws a thousand equal rows as a disc with a hole around a core: among "
    "equal distances the first rows are everyone's neighbors. openTSNE puts one thousand into a "
    "dot and the other into a ring of dots; umap-learn scatters both over other groups.",
    "plane": "thalweg's t-SNE and both UMAPs cut the ring (green) open, openTSNE leaves it nearly "
    "closed; the spiral (purple) falls into parts in all four, and `UMAP()` here breaks "
    "the line, too.",
    "wide": "thalweg's t-SNE fills discs that nearly touch, and both UMAPs leave gaps; openTSNE's "
    "map is still only 8 units wide, its groups wedges, with stray points of one class (purple) "
    "far from it.",
    "outliers": "Eight whole groups in all four; outlying rows sit at their rims, and in "
    "thalweg's t-SNE more of them than elsewhere alone or in pairs between groups. None shrinks "
    "the map.",
    "unbalanced": "All four show every class, the smallest of some points each near a larger one.",
    "hierarchy": "Both t-SNEs show the triples; both UMAPs spread the 81 groups evenly, and "
    "umap-learn mixes the nine colors most.",
    "roll": "umap-learn alone keeps the sheet in one piece to its thin end; in the other three "
    "the end lies apart, in the t-SNEs as islands inside the sheet.",
    "binary": "Twelve discs in all four.",
    "colors": "The two t-SNEs agree; both UMAPs put a small group or two far outside.",
    "tumors": "One band from the one class to the other, with a gap in all; umap-learn bends its "
    "two parts away from each other.",
}
