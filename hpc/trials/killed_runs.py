"""Runs that are killed or stopped at random and resumed; ``test_kills.py`` starts it on some ranks.

``python killed_runs.py FOLDER SEED KILLS CASE...`` works through the cases.  Of each it runs
an uninterrupted reference, then the same run in a folder of its own, saving at every
iteration.  At an event chosen by the seed, on a rank chosen by the seed, the process sends itself
SIGKILL or SIGUSR1; an event is an iteration, also of a run within another one or its set-up, or a
step of writing files.  Started again with the same arguments it resumes, after SIGUSR1 by itself.
A case that has come to its end is compared with the reference to the
bit, and the outcome appended to ``FOLDER/outcomes.jsonl``.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import thalweg
from thalweg.driver import loop
from thalweg.driver.signals import SignalWatch
from thalweg.parallel import MPI, abort_on_error
from thalweg.result import Status

MAP = {"data": {"name": "digits", "rows": 40}, "objective": {"perplexity": 6}}
VALLEY: dict[str, Any] = {"objective": {"name": "rosenbrock"}}
SECANTS = {"data": {"name": "digits", "rows": 40}, "objective": {"name": "near-isometry"}}
SLABS = "t-sne by slabs, lbfgs"
MOONS = {"data": {"name": "moons", "rows": 60}, "objective": {"name": "kdac"}}


def _case(base: dict[str, Any], solver: str, preconditioner: str = "", **changes: Any) -> Any:
    config = {section: dict(options) for section, options in base.items()}
    config["solver"] = {"name": solver, **changes.pop("solver", {})}
    if preconditioner:
        config["preconditioner"] = {"name": preconditioner}
    for section, options in changes.items():
        config[section] = {**config.get(section, {}), **options}
    return config


def cases() -> dict[str, Any]:
    """Configurations by name: every solver and every objective at least once."""
    maps = ("elastic-embedding", "s-sne", "t-sne", "t-ee")
    found = {f"{name}, lbfgs": _case(MAP, "lbfgs", objective={"name": name, "perplexity": 6})
             for name in maps}  # fmt: skip
    for name in ("largevis", "localmap", "neg-t-sne", "pacmap", "umap"):
        found[f"{name}, lbfgs"] = _case({**MAP, "objective": {"name": name}}, "lbfgs")
    elastic = {"name": "elastic-embedding", "perplexity": 6}
    for name in ("fixed-point", "hessian-diagonal", "partial-hessian", "spectral"):
        found[f"elastic-embedding, gradient-descent, {name}"] = _case(
            MAP, "gradient-descent", name, objective=elastic
        )
    found["elastic-embedding, homotopy"] = _case(
        MAP, "nonlinear-cg", "partial-hessian", objective=elastic,
        homotopy={"first": 0.01, "stages": 4, "iterations": 3},
    )  # fmt: skip
    found["t-sne, tao:lmvm, spectral"] = _case(
        MAP, "tao:lmvm", "spectral", objective={"name": "t-sne", "perplexity": 6}
    )
    types = ("bncg", "bntr", "bqnktr", "cg", "nls", "ntr", "tron", "blmvm")
    methods = ("BFGS", "CG", "L-BFGS-B", "Nelder-Mead", "Newton-CG", "Powell", "SLSQP", "TNC",
               "trust-constr", "trust-ncg")  # fmt: skip
    for name in (*(f"tao:{kind}" for kind in types), *(f"scipy:{method}" for method in methods)):
        found[f"rosenbrock, {name}"] = _case(VALLEY, name)
    for name in ("gradient-descent", "nonlinear-cg", "lbfgs", "saddle-free", "hessian-free"):
        found[f"rosenbrock, {name}"] = _case(VALLEY, name)
    found["deep-linear, saddle-free"] = _case({"objective": {"name": "deep-linear"}}, "saddle-free")
    for name in ("laplacian-eigenmaps", "lle"):
        found[f"{name}, eigen"] = _case({**MAP, "objective": {"name": name}}, "eigen")
    for name in ("ism", "stiefel", "dimension-growth"):
        found[f"kdac, {name}"] = _case(MOONS, name)
    for options in ({"init": "sample", "sigma": 0.3}, {"tuning": "score", "components": 1}):
        found[f"kdac of {next(iter(options))}, ism"] = _case(
            MOONS, "ism", objective={"name": "kdac", **options}
        )
    for name in ("numax", "hinge-lbfgs", "secant-pca", "random-projection", "adagio"):
        found[f"near-isometry, {name}"] = _case(
            SECANTS, name, objective={"name": "near-isometry", "delta": 0.4}
        )
    for name in ("fromax", "hessian-descent", "nile-pro", "secant-avoidance"):
        found[f"near-isometry, {name}"] = _case(
            SECANTS, name, objective={"name": "near-isometry", "rank": 6}
        )
    kept = {"name": "near-isometry", "n_neighbors": 3, "n_candidates": 6}
    found["near-isometry, candidate-rounds"] = _case(SECANTS, "candidate-rounds", objective=kept)
    found[SLABS] = {
        "data": {"name": "blobs", "rows": 20_000, "dimension": 6, "clusters": 5},
        "objective": {"name": "t-sne", "perplexity": 5, "neighbor_search": "approximate"},
        "preconditioner": {"name": "spectral"},
        "solver": {"name": "lbfgs"},
    }
    for name in ("mlp", "autoencoder"):
        small = {"data": {"name": "digits", "rows": 30}, "objective": {"name": name}}
        found[f"{name}, hessian-free"] = _case(small, "hessian-free")
        found[f"{name}, saddle-free-subspace"] = _case(small, "saddle-free-subspace")
    return found


class Killer:
    """Sends this process a signal at its ``event``-th event; None never."""

    def __init__(self, event: int | None) -> None:
        self.event, self.count, self.signal = event, 0, signal.SIGKILL
        for owner, name in ((os, "fsync"), (os, "replace"), (Path, "rename"), (Path, "unlink"),
                            (Path, "mkdir")):  # fmt: skip
            setattr(owner, name, self._counted(getattr(owner, name)))
        advance = loop._Run._advance
        loop._Run._advance = self._counted(advance)  # type: ignore[method-assign]

    def _counted(self, real: Any) -> Any:
        def step(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.event is not None and self.count >= self.event:
                self.event = None
                os.kill(os.getpid(), self.signal)
            return real(*arguments, **options)

        return step


def configuration(name: str, seed: int) -> dict[str, Any]:
    """A case of few iterations, which no tolerance ends."""
    return {
        **cases()[name],
        "run": {"seed": seed},
        "output": {"pictures": False},
        "stop": {"iterations": 7, "decrease": "none"},
    }


def run_reference(comm: MPI.Comm, place: Path, config: dict[str, Any], killer: Killer) -> None:
    """The uninterrupted run; leaves how many events one that saves has, about."""
    if comm.rank == 0:
        place.mkdir(parents=True, exist_ok=True)
    comm.Barrier()
    killer.event, killer.count = None, 0
    thalweg.run(config, place / "reference", comm=comm)
    if comm.rank == 0:
        (place / "events").write_text(str(max(12, 4 * killer.count)))
    comm.Barrier()


def run_attempt(
    comm: MPI.Comm, place: Path, config: dict[str, Any], killer: Killer, kills: int, seed: str
) -> int:
    """Resume the run, and die on the way; returns the number of attempts so far if not."""
    found = (len(list(place.glob("attempt-*"))), (place / "events").read_text())
    attempt, events = comm.bcast(found if comm.rank == 0 else None)
    stream = random.Random(f"{seed} {attempt}")
    victim, event = stream.randrange(comm.size), stream.randrange(1, int(events))
    comm.Barrier()
    if comm.rank == 0:
        (place / f"attempt-{attempt}").touch()
    killer.count = 0
    killer.event = event if attempt < kills and victim == comm.rank else None
    killer.signal = stream.choice((signal.SIGKILL, signal.SIGUSR1))
    saving = {**config, "run": {**config["run"], "checkpoint": 0}}
    with SignalWatch() as watch:  # as commands have
        result = thalweg.run(saving, place / "killed", resume=True, comm=comm)
        watch.answered = True
    killer.event = None
    comm.Barrier()
    if result.status is Status.INTERRUPTED:
        return run_attempt(comm, place, config, killer, kills, seed)
    return int(attempt) + 1


def finish(folder: Path, place: Path, name: str, ranks: int, attempts: int) -> None:
    """Compare with the reference, and note the outcome."""
    differs = compare(place / "reference", place / "killed")
    outcome = {"case": name, "ranks": ranks, "attempts": attempts, "differs": differs}
    with open(folder / "outcomes.jsonl", "a") as stream:
        stream.write(json.dumps(outcome) + "\n")
    (place / "outcome").touch()


def main(folder: Path, seed: int, kills: int, names: list[str]) -> None:
    """All cases on all ranks; a kill ends the process."""
    comm = MPI.COMM_WORLD
    killer = Killer(None)
    for number, name in enumerate(names):
        place = folder / f"case-{number}"
        if comm.bcast((place / "outcome").exists()):
            continue
        config = configuration(name, seed)
        if not comm.bcast((place / "events").exists()):
            run_reference(comm, place, config, killer)
        attempts = run_attempt(comm, place, config, killer, kills, f"{seed} {comm.size} {name}")
        if comm.rank == 0:
            finish(folder, place, name, comm.size, attempts)
        comm.Barrier()


def compare(reference: Path, killed: Path) -> str:
    """Which file differs in any bit, empty if none does; wall times do not count."""
    if (reference / "solution.npy").read_bytes() != (killed / "solution.npy").read_bytes():
        return "solution.npy"
    tables = [np.genfromtxt(place / "trace.csv", delimiter=",", names=True)
              for place in (reference, killed)]  # fmt: skip
    for column in tables[0].dtype.names:
        if column != "seconds" and tables[0][column].tobytes() != tables[1][column].tobytes():
            return f"trace.csv, {column}"
    facts = [json.loads((place / "result.json").read_text()) for place in (reference, killed)]
    for key in ("status", "objective", "iterations", "evaluations"):
        if facts[0][key] != facts[1][key]:
            return f"result.json, {key}"
    return ""


if __name__ == "__main__":
    with abort_on_error():
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
