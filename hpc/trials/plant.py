"""Runs ``thalweg run`` or ``thalweg.minimize`` with a fault planted on one rank.

Usage: ``plant.py PLACE KIND RANK FOLDER``.  The fault comes at the second call of the place (the
first, where there is but one) on that rank alone; ``FOLDER/failed`` then holds the time.
"""

import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import MPI

#: Points of the run.
ROWS = 60

#: Seconds of the watchdog where a rank falls asleep: more than the first evaluation takes.
SLEEP = 20


def fault(kind: str) -> None:
    """Fail as the kind says, and leave the time."""
    Path(sys.argv[4], "failed").write_text(repr(time.time()))
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "sleep":
        time.sleep(3600)
    raise {
        "input": InputError("planted"),
        "value": ValueError("planted"),
        "memory": MemoryError("planted"),
        "disk": OSError(errno.ENOSPC, "No space left on device", "planted"),
        "interrupt": KeyboardInterrupt(),
        "exit": SystemExit(7),
        "leave": SystemExit(0),
        "pipe": BrokenPipeError(errno.EPIPE, "planted"),
    }[kind]


class Plant:
    """Replaces functions by ones that fail, or spoils what they return."""

    def __init__(self, kind: str, rank: int) -> None:
        self.kind, self.here = kind, MPI.COMM_WORLD.rank == rank

    def calls(self, owner: Any, name: str, when: int = 1, late: bool = False) -> None:
        """The call of that number of ``owner.name`` fails, before or after its work."""
        real, count = getattr(owner, name), 0

        def planted(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if self.here and count == when and not late:
                fault(self.kind)
            found = real(*args, **kwargs)
            if self.here and count == when and late:
                fault(self.kind)
            return found

        setattr(owner, name, planted)

    def number(self, value: float) -> float:
        """A value that another rank does not have."""
        return {"nan": np.nan, "inf": np.inf, "differ": value * 1.5 + 1.0}[self.kind]

    def returns(self, owner: Any, name: str, when: int = 3) -> None:
        """The number that ``owner.name`` returns, alone or first, is wrong from a call on."""
        real, count = getattr(owner, name), 0

        def planted(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            found = real(*args, **kwargs)
            if not (self.here and count >= when):
                return found
            if isinstance(found, tuple):
                return self.number(found[0]), *found[1:]
            return self.number(found)

        setattr(owner, name, planted)

    def spoils(self, owner: Any, name: str, when: int = 2) -> None:
        """A number in the array that is returned, alone or last, is wrong from a call on."""
        real, count = getattr(owner, name), 0

        def planted(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            found = real(*args, **kwargs)
            if self.here and count >= when:
                numbers = found[-1] if isinstance(found, tuple) else found
                numbers.flat[0] = self.number(float(numbers.flat[0]))
            return found

        setattr(owner, name, planted)


def plant(place: str, kind: str, rank: int) -> None:
    """Put the fault where it belongs."""
    import thalweg.driver.assembly as assembly
    import thalweg.driver.checkpoint_content as content
    import thalweg.workbench.run.directory as directory
    import thalweg.workbench.run.single_run as running
    from thalweg.interfaces import Objective
    from thalweg_descent.lbfgs import LBFGS
    from thalweg_embedding.pairwise_embedding import PairwiseEmbedding
    from thalweg_embedding.preconditioners.spectral import SpectralDirection

    planted = Plant(kind, rank)
    spoils = kind in ("nan", "inf", "differ")
    targets: dict[str, tuple[Callable[..., None], Any, str, dict[str, Any]]] = {
        "configuration": (planted.calls, running, "build_objective", {}),
        "set-up": (planted.calls, PairwiseEmbedding, "__init__", {"late": True}),
        "method": (planted.calls, running.Job, "minimized", {}),
        "start": (planted.calls, assembly, "starting_point", {}),
        "evaluation": (planted.calls, PairwiseEmbedding, "value_and_gradient", {"when": 3}),
        "evaluated": (
            planted.calls, PairwiseEmbedding, "value_and_gradient", {"when": 3, "late": True},
        ),
        "preconditioner set-up": (planted.calls, SpectralDirection, "setup", {}),
        "preconditioner": (planted.calls, SpectralDirection, "apply", {"when": 2}),
        "step": (planted.calls, LBFGS, "step", {"when": 2}),
        "status": (planted.calls, LBFGS, "status", {"when": 3}),
        "checkpoint": (planted.calls, content.ContentWriter, "_encode_array", {"when": 2}),
        "metrics": (planted.calls, PairwiseEmbedding, "metrics", {}),
        "results": (planted.calls, directory.RunDirectory, "write_result", {}),
        "pictures": (planted.calls, running.Job, "completed", {}),
        "close": (planted.calls, SpectralDirection, "close", {}),
        "end": (planted.calls, running, "replace", {"when": 2}),
    }  # fmt: skip
    if spoils:
        targets = {
            "value": (planted.returns, PairwiseEmbedding, "value_and_gradient", {}),
            "gradient": (planted.spoils, PairwiseEmbedding, "value_and_gradient", {}),
            "direction": (planted.spoils, SpectralDirection, "apply", {}),
            "start": (planted.spoils, Objective, "initial_point", {}),
        }
    tool, owner, name, how = targets[place]
    tool(owner, name, **how)


def main() -> int:
    """Plant the fault and run."""
    place, kind, rank, folder = sys.argv[1:]
    from thalweg.workbench.command.main import main as thalweg

    plant(place, kind, int(rank))
    config = os.path.join(folder, "run.toml")
    if MPI.COMM_WORLD.rank == 0:
        points = os.path.join(folder, "points.npy")
        np.save(points, np.random.default_rng(0).standard_normal((ROWS, 5)))
        pictures = "true" if place == "pictures" else "false"
        watchdog = SLEEP if kind == "sleep" else 0
        with open(config, "w", encoding="utf-8") as file:
            file.write(
                f'[data]\npath = "{points}"\n'
                '[objective]\nname = "t-sne"\nperplexity = 5\n'
                '[preconditioner]\nname = "spectral"\n[stop]\niterations = 6\n'
                f"[run]\ncheckpoint = 0\nwatchdog = {watchdog}\n[output]\npictures = {pictures}\n"
            )
    MPI.COMM_WORLD.Barrier()
    return thalweg(["run", config, "--out", os.path.join(folder, "out"), "--quiet"])


if __name__ == "__main__":
    sys.exit(main())
