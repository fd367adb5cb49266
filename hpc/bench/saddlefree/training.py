"""Training networks: training and test error against time, epochs and updates.

Every method starts from the same weights, in single precision, and gets the same time;
the errors are measured off the clock.  With ``clock="cpu"`` the time is that of one
core, counted by the operating system, so that other programs on the machine do not
count; with ``clock="wall"`` it is that of all cores.
"""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hpc.bench.saddlefree.rivals import GRID, FirstOrder, available
from sklearn.datasets import load_digits

import thalweg
from thalweg.data import Dataset
from thalweg.interfaces import value_over_all_rows
from thalweg.parallel import MPI
from thalweg_saddlefree.kronecker.preconditioner import KroneckerPreconditioner
from thalweg_saddlefree.networks.autoencoder import build_autoencoder
from thalweg_saddlefree.networks.mlp import build_mlp
from thalweg_saddlefree.networks.objective import NetworkObjective
from thalweg_saddlefree.subspace.saddle_free import SubspaceSaddleFree

#: Options of this project's solvers that differ from their defaults.
OURS: dict[str, dict[str, Any]] = {
    "saddle-free-subspace": {},
    "saddle-free-subspace, Gauss-Newton": {"curvature": "gauss-newton"},
    "saddle-free": {"steps": 100, "curvature_rows": "a quarter"},
    "hessian-free": {"steps": 100, "curvature_rows": "a quarter"},
    "lbfgs": {"memory": 20},
}

#: Every method, in the order of the table.
METHODS = (*OURS, *GRID)

#: The networks: an autoencoder with tanh units, the literature's with logistic units and a
#: sparse start, one of curves, a classifier, and a chain of 30 layers without shortcuts.
PROBLEMS = ("autoencoder", "autoencoder-logistic", "curves", "classifier", "deep-plain")

#: Part of the time that each rate of the grid is tried for.
TRIAL = 0.2


@dataclass(frozen=True)
class Problem:
    """A network to train.

    Attributes
    ----------
    name
        As on the command line.
    train, test
        Objectives over the training rows and over rows that are not trained on.
    measure
        Key of the metric that is plotted.
    description
        For the report.
    """

    name: str
    train: NetworkObjective
    test: NetworkObjective
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
    """One of the networks of this benchmark."""
    comm = MPI.COMM_WORLD
    if name == "curves":
        data = {"train": curves(rows, 0), "test": curves(2000, 1)}
        sizes = [784, 400, 200, 100, 50, 25, 6]
        options: dict[str, Any] = {"activation": "tanh", "output": "sigmoid"}
    else:
        data = images(folder, rows)
        pixels = data["train"].shape[1]
        sizes = [784, 1000, 500, 250, 30] if pixels == 784 else [pixels, 100, 50, 10]
        options = {"activation": "tanh", "output": "sigmoid"}
        if name == "autoencoder-logistic":
            options = {
                "activation": "sigmoid",
                "loss": "cross-entropy",
                "initialization": "sparse",
            }
    made = []
    for part in ("train", "test"):
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
    return Problem(name, *made, measure, f"{len(data['train'])} rows, {shown}, {words}")


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
    """Training and test error at a point; the objectives' work is left as it is."""
    found = []
    for objective in (problem.train, problem.test):
        operations = objective.operations
        if problem.measure == "loss":
            found.append(value_over_all_rows(objective, x))
        else:
            found.append(objective.metrics(x)[problem.measure])
        objective.operations = operations
    return found


def train(
    problem: Problem, method: str, seconds: float, clock: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """Curve, status and settings of one method.

    The curve has rows of seconds, epochs, updates, training and test error.
    """
    name = method.split(",")[0]
    watch = Watch(clock)
    run = _first_order if name in GRID else _ours
    curve, status = run(problem, name, seconds, watch, settings)
    sys.stderr.write(f"{problem.name}: {method} {settings}: {curve[-1]} ({status})\n")
    return {"curve": curve, "status": status, "settings": settings}


def _ours(
    problem: Problem, name: str, seconds: float, watch: Watch, settings: dict[str, Any]
) -> tuple[list[list[float]], str]:
    rows = problem.train.rows.rows
    options = {k: rows // 4 if v == "a quarter" else v for k, v in settings.items()}
    curve: list[list[float]] = []
    began = watch.now()
    step = seconds / 40

    def note(iterate: Any) -> bool:
        spent = watch.now() - began
        if not curve or spent >= seconds or spent >= curve[-1][0] + step:
            state = iterate.state
            epochs = getattr(state, "work", problem.train.work)
            if hasattr(state, "epoch"):
                epochs = state.epoch
            errors = watch.pause(lambda: measured_for(problem, state))
            curve.append([spent, float(epochs), float(iterate.iteration), *errors])
            sys.stderr.write(f"{name}: {curve[-1]}\n")
        return spent >= seconds

    solver: Any = name
    if name == "saddle-free-subspace":
        metric = {k[7:]: v for k, v in options.items() if k.startswith("metric.")}
        others = {k: v for k, v in options.items() if not k.startswith("metric.")}
        solver = SubspaceSaddleFree(preconditioner=KroneckerPreconditioner(**metric), **others)
        options = {}
    result = thalweg.minimize(
        problem.train, solver=solver, callback=note, iterations=None, decrease=None, **options
    )
    done = "time is up" if result.status.name == "CALLBACK" else result.message
    return curve, done


def measured_for(problem: Problem, state: Any) -> list[float]:
    """Errors at a solver's iterate; a batch in use is put back by the solver itself."""
    errors = measured(problem, state.x)
    if hasattr(state, "in_use"):
        state.in_use = (-1, -1) if problem.measure == "loss" else state.in_use
    return errors


def _first_order(
    problem: Problem, name: str, seconds: float, watch: Watch, settings: dict[str, Any]
) -> tuple[list[list[float]], str]:
    x = problem.train.initial_point(0)
    curve = [[0.0, 0.0, 0.0, *measured(problem, x)]]
    began = None
    method = FirstOrder(name, settings["rate"], settings["batch"])
    for updates, epochs, flat in method.run(problem.train, seconds, watch.now):
        # What compiling took before the first update is not counted.
        began = method.began if began is None else began
        spent = watch.now() - began
        if spent >= curve[-1][0] + seconds / 40 or spent >= 0.97 * seconds or method.finished:
            with problem.train.layout.writing(x) as target:
                target[:, 0] = flat
            errors = watch.pause(lambda: measured(problem, x))
            curve.append([spent, epochs, float(updates), *errors])
            sys.stderr.write(f"{name}: {curve[-1]}\n")
    finished = method.finished
    return curve, "schedule completed" if finished else "time is up"


def measure_training(
    record: dict[str, Any],
    name: str,
    folder: Path | None,
    rows: int,
    seconds: float,
    clock: str,
    methods: Iterable[str],
) -> Iterator[None]:
    """Train a network by several methods; ``record[name]`` gets what each of them did.

    Rates of first-order methods are chosen by runs of a fifth of the time, each with a
    schedule that fits it, on the training error at its end.
    """
    problem = build_problem(name, folder, rows)
    setting = {
        "description": problem.description,
        "measure": problem.measure,
        "seconds": seconds,
        "clock": clock,
        "data": "MNIST" if folder else "digits",
    }
    earlier = record.get(name, {})
    runs = dict(earlier.get("runs", {})) if earlier.get("setting") == setting else {}
    for method in methods:
        if method in GRID and not available():
            continue
        settings, tried = dict(OURS.get(method, {})), {}
        if method in GRID:
            batch = GRID[method]["batch"]
            for rate in GRID[method]["rate"]:
                trial = {"rate": rate, "batch": batch}
                end = train(problem, method, TRIAL * seconds, clock, trial)["curve"][-1][3]
                tried[str(rate)] = end if np.isfinite(end) else float("inf")
            settings = {"rate": float(min(tried, key=lambda r: tried[r])), "batch": batch}
        runs[method] = {**train(problem, method, seconds, clock, settings), "tried": tried}
        record[name] = {"setting": setting, "runs": runs}
        yield
