"""Training networks: training and test error against time, epochs and updates.

Every method starts from the same weights, in single precision, and gets the same time;
the errors are measured off the clock.  With ``clock="cpu"`` the time is that of one
core, counted by the operating system, so that other programs on the machine do not
count; with ``clock="wall"`` it is that of all cores.
"""

from __future__ import annotations

import copy
import gzip
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hpc.bench.saddlefree.characters import Transformer
from hpc.bench.saddlefree.rivals import GRID, Rival, available
from hpc.bench.saddlefree.soap import Soap
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.parallel import MPI
from thalweg_saddlefree.kronecker import KroneckerPreconditioner
from thalweg_saddlefree.networks.build import build_autoencoder, build_mlp
from thalweg_saddlefree.subspace.solver import SubspaceSaddleFree, SubspaceState

#: Options of this project's solvers that differ from their defaults.
OURS: dict[str, dict[str, Any]] = {
    "saddle-free-subspace": {},
    "saddle-free-subspace, Gauss-Newton": {"curvature": "gauss-newton"},
    "saddle-free-subspace, at most 4000 rows": {"largest_batch": 4000},
    "saddle-free": {"steps": 100, "curvature_rows": "a quarter"},
    "hessian-free": {"steps": 100, "curvature_rows": "a quarter"},
    "lbfgs": {"memory": 20},
}

#: Every method, in the order of the table.
METHODS = (*OURS, *GRID)

#: The networks: an autoencoder with tanh units on some of MNIST, from Adam's end on, on the
#: digits, and on all of MNIST; the literature's with logistic units and a sparse start, one of
#: curves, and a classifier.
PROBLEMS = (
    "autoencoder",
    "autoencoder-continued",
    "autoencoder-digits",
    "autoencoder-large",
    "autoencoder-logistic",
    "curves",
    "classifier",
)

#: Rows of scikit-learn's digits to train on, small enough to run every rival, and of MNIST
#: where all are.
DIGITS, ALL = 1400, 60000

#: Error that stands for values that are not finite.
DIVERGED = 1e99

#: Points of a curve.
POINTS = 20

#: Part of the time that each setting of a grid is tried for, with a schedule that fits it.
TRIAL = 0.1


@dataclass(frozen=True)
class Problem:
    """A network to train.

    Attributes
    ----------
    name
        As on the command line.
    train
        The objective that is minimized.
    watched
        Objectives that only measure, over the training rows and over rows that are not
        trained on: test rows, or rows for validation and then test rows.
    measure
        Key of the metric that is plotted.
    description
        For the report.
    """

    name: str
    train: Any
    watched: tuple[Any, ...]
    measure: str
    description: str


def images(folder: Path | None, rows: int) -> dict[str, np.ndarray]:
    """Training and test images with pixels between 0 and 1, and their labels."""
    if folder is None:
        pixels, labels = load_digits(return_X_y=True)
        cut = min(rows, 1400)
        return {
            "train": pixels[:cut] / 16.0,
            "test": pixels[1400:] / 16.0,
            "train labels": labels[:cut],
            "test labels": labels[1400:],
        }
    folder = folder / "mnist" if (folder / "mnist").is_dir() else folder
    found = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        with gzip.open(folder / f"{name}-images-idx3-ubyte.gz") as stream:
            raw = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 784)
        with gzip.open(folder / f"{name}-labels-idx1-ubyte.gz") as stream:
            labels = np.frombuffer(stream.read(), np.uint8, offset=8)
        count = rows if part == "train" else len(raw)
        found[part], found[f"{part} labels"] = raw[:count] / 255.0, labels[:count]
    return found


def curves(rows: int, seed: int) -> np.ndarray:
    """Images of 28 x 28 pixels of smooth curves through three random points.

    After Hinton and Salakhutdinov (2006); drawn here, since theirs are not at hand.
    """
    stream = np.random.default_rng(seed)
    points = stream.uniform(4, 24, (rows, 3, 2))
    t = np.linspace(0, 1, 60)[:, None]
    weights = np.hstack([(1 - t) ** 2, 2 * t * (1 - t), t**2])
    path = np.einsum("tk,nkc->ntc", weights, points)
    grid = np.arange(28)
    across = np.exp(-0.5 * (grid[:, None] - path[:, None, :, 0]) ** 2)
    down = np.exp(-0.5 * (grid[:, None] - path[:, None, :, 1]) ** 2)
    drawn = np.einsum("nit,njt->nij", across, down).reshape(rows, 784)
    return np.asarray(np.minimum(1.0, drawn / 6.0))


def build_problem(name: str, folder: Path | None, rows: int) -> Problem:
    """One of the networks of this benchmark, or the chain of 30 layers of the plateaus."""
    comm = MPI.COMM_WORLD
    if name == "curves":
        data = {"train": curves(rows, 0), "test": curves(2000, 1)}
        sizes = [784, 400, 200, 100, 50, 25, 6]
        options: dict[str, Any] = {"activation": "tanh", "output": "sigmoid"}
    else:
        if name.endswith("-digits"):
            data = images(None, DIGITS)
        else:
            data = images(folder, ALL if name.endswith("-large") else rows)
        pixels = data["train"].shape[1]
        sizes = [784, 1000, 500, 250, 30] if pixels == 784 else [pixels, 100, 50, 10]
        options = {"activation": "tanh", "output": "sigmoid"}
        if name == "autoencoder-logistic":
            options = {"activation": "sigmoid", "loss": "cross-entropy", "initialization": "sparse"}
    made = []
    for part in ("train", "train", "test"):
        if name in ("classifier", "deep-plain"):
            dataset = Dataset.from_array(data[part], data[f"{part} labels"], comm)
            pixels = data[part].shape[1]
            hidden = [500, 300] if name == "classifier" else [50] * 30
            sizes = [pixels, *hidden, 10]
            options = {"activation": "tanh"}
            made.append(build_mlp(dataset, comm, layers=sizes, precision="single", **options))
        else:
            dataset = Dataset.from_array(data[part], comm=comm)
            network = build_autoencoder(dataset, comm, layers=sizes, precision="single", **options)
            made.append(network)
    shown = "-".join(map(str, sizes)) if len(sizes) < 12 else f"{sizes[0]}-30x50-{sizes[-1]}"
    words = ", ".join(f"{key} {value}" for key, value in options.items())
    measure = "loss" if name in ("classifier", "deep-plain") else "squared_error_per_case"
    return Problem(
        name, made[0], (made[1], made[2]), measure, f"{len(data['train'])} rows, {shown}, {words}"
    )


@dataclass
class Watch:
    """The clock of a run, which stands still while errors are measured."""

    kind: str
    paused: float = 0.0

    def now(self) -> float:
        """Seconds so far."""
        raw = time.process_time() if self.kind == "cpu" else time.perf_counter()
        return raw - self.paused

    def pause(self, action: Callable[[], Any]) -> Any:
        """Do something off the clock."""
        began = self.now()
        found = action()
        self.paused += self.now() - began
        return found


def measured(problem: Problem, x: Any) -> list[float]:
    """The error at a point over each of the sets of rows that are watched."""
    if problem.measure == "loss":
        return [objective.value(x) for objective in problem.watched]
    return [objective.metrics(x)[problem.measure] for objective in problem.watched]


def train(
    problem: Problem,
    method: str,
    seconds: float,
    clock: str,
    settings: dict[str, Any],
    seed: int = 0,
    start: np.ndarray | None = None,
    points: int = POINTS,
) -> tuple[list[list[float]], str, np.ndarray]:
    """Curve, status and last point of one method.

    The curve has rows of seconds, epochs, updates, and the errors that are watched, about
    ``points`` of them. ``seed`` is that of the starting point, unless one is given, and of the
    batches. The setting ``decay`` is weight decay.
    """
    name = method.split(",")[0]
    watch = Watch(clock)
    if start is None:
        start = problem.train.initial_point(seed)[:, 0]
    run = _rival if name in GRID else _ours
    curve, status, end = run(problem, name, seconds, watch, settings, seed, start, seconds / points)
    sys.stderr.write(f"{problem.name}: {method} {settings} {seed}: {curve[-1]} ({status})\n")
    return curve, status, end


def _ours(
    problem: Problem,
    name: str,
    seconds: float,
    watch: Watch,
    settings: dict[str, Any],
    seed: int,
    start: np.ndarray,
    step: float,
) -> tuple[list[list[float]], str, np.ndarray]:
    rows = problem.train.data_layout.rows
    options: dict[str, Any] = {k: rows // 4 if v == "a quarter" else v for k, v in settings.items()}
    decay = options.pop("decay", 0.0)
    if isinstance(problem.train, Transformer):
        objective: Any = problem.train.decayed(decay)
    else:
        objective = copy.copy(problem.train)
        objective.l2 = decay
    curve: list[list[float]] = []
    solver: Any = name
    if name == "saddle-free-subspace":
        solver = SubspaceSaddleFree(preconditioner=KroneckerPreconditioner(), seed=seed, **options)
        options = {}
    options |= {"iterations": None, "decrease": None}
    if isinstance(objective, Transformer):
        # What compiling takes is not counted, nor is it for the rivals.
        thalweg.minimize(objective, start, solver=solver, **{**options, "iterations": 2})
    began, worked = watch.now(), objective.work

    def note(iterate: Any) -> bool:
        spent = watch.now() - began
        if not curve or spent >= seconds or spent >= curve[-1][0] + step:
            state = iterate.state
            epochs = objective.work - worked
            if isinstance(state, SubspaceState):
                epochs = state.epoch + min(1.0, state.batch * state.size / rows)
            errors = watch.pause(lambda: measured(problem, state.x))
            curve.append([spent, float(epochs), float(iterate.iteration), *errors])
            sys.stderr.write(f"{name}: {curve[-1]}\n")
        return spent >= seconds

    result = thalweg.minimize(objective, start, solver=solver, callback=note, **options)
    done = "time is up" if result.status.name == "CALLBACK" else result.message
    return curve, done, result.x


def _rival(
    problem: Problem,
    name: str,
    seconds: float,
    watch: Watch,
    settings: dict[str, Any],
    seed: int,
    start: np.ndarray,
    step: float,
) -> tuple[list[list[float]], str, np.ndarray]:
    curve = [[0.0, 0.0, 0.0, *measured(problem, start[:, None])]]
    torch = name == "soap" and not isinstance(problem.train, Transformer)
    rival = (Soap if torch else Rival)(name, settings, seed)
    flat = start
    if isinstance(problem.train, Transformer):
        rival.step = step  # an epoch is longer than the time that a method gets
    for updates, epochs, flat in rival.run(problem.train, start, seconds, watch.now):
        spent = watch.now() - rival.began
        if spent >= curve[-1][0] + step or spent >= seconds:
            x = np.asarray(flat, dtype=float)[:, None]
            errors = watch.pause(lambda x=x: measured(problem, x))
            curve.append([spent, epochs, float(updates), *errors])
            sys.stderr.write(f"{name}: {curve[-1]}\n")
    status = "schedule completed" if "rate" in settings else "time is up"
    return curve, status, np.asarray(flat, dtype=float)


def tuned(
    problem: Problem, method: str, seconds: float, clock: str, start: np.ndarray | None = None
) -> tuple[dict[str, Any], dict[str, float]]:
    """Settings of a method, and what those of the rival's grid reached in a part of the time."""
    if method not in GRID:
        return dict(OURS.get(method, {})), {}
    tried: dict[str, float] = {}
    for settings in GRID[method]:
        curve, *_ = train(problem, method, TRIAL * seconds, clock, settings, 0, start, 1)
        end = curve[-1][3]
        tried[words(settings)] = end if np.isfinite(end) else DIVERGED
    best = min(GRID[method], key=lambda settings: tried[words(settings)])
    return dict(best), tried


def words(settings: dict[str, Any]) -> str:
    """Settings as a reader wants them."""
    return ", ".join(
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in settings.items()
    )


def measure_training(
    record: dict[str, Any],
    name: str,
    folder: Path | None,
    rows: int,
    seconds: float,
    clock: str,
    methods: Iterable[str],
    seeds: int,
    weights: Path | None,
) -> Iterator[None]:
    """Train a network by several methods; ``record[name]`` gets what each of them did.

    A name that ends in ``-continued`` starts where the tuned Adam of the record ended, whose
    weights were saved in the folder ``weights``, and grants as much time again.
    """
    base = name.removesuffix("-continued")
    problem = build_problem(base, folder, rows)
    start = None
    if base != name:
        if weights is None:
            raise SystemExit("to continue from Adam's end give the folder of its --weights")
        start = np.load(weights / f"{base}-adam.npy")
    setting = {
        "description": problem.description,
        "measure": problem.measure,
        "clock": clock,
        "data": "drawn"
        if base == "curves"
        else "MNIST"
        if folder and not base.endswith("-digits")
        else "digits",
    }
    earlier = record.get(name, {})
    runs = dict(earlier.get("runs", {})) if earlier.get("setting") == setting else {}
    for method in methods:
        if method in GRID and not available(method):
            continue
        settings, tried = tuned(problem, method, seconds, clock, start)
        curves, ends = [], []
        for seed in range(seeds):
            points = POINTS // 2 if name.endswith("-large") else POINTS
            curve, status, x = train(problem, method, seconds, clock, settings, seed, start, points)
            curves.append(curve)
            ends.append(x)
        if weights is not None and method == "adam" and start is None:
            weights.mkdir(parents=True, exist_ok=True)
            np.save(weights / f"{base}-adam.npy", ends[0])
        runs[method] = {
            "curves": curves,
            "seconds": seconds,
            "status": status,
            "settings": settings,
            "tried": tried,
        }
        record[name] = {"setting": setting, "runs": runs}
        yield
