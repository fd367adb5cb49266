"""The Python call: an objective, a solver, a preconditioner, by name or as objects."""

import dataclasses
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.driver.assembly import assembled, method_of_call
from thalweg.driver.homotopy import HomotopySchedule
from thalweg.driver.progress import Callback
from thalweg.errors import InputError
from thalweg.files import FolderLock
from thalweg.interfaces import Objective, Preconditioner, Solver
from thalweg.parallel import MPI, collective_call, on_root, raise_on_all_ranks, refuse_differing
from thalweg.plugins import Option
from thalweg.result import Result

SEED = Option("seed", int, 0, "seed of the starting point", minimum=0)


def _comm_of(objective: Objective, *_: Any, **__: Any) -> MPI.Comm:
    if not isinstance(objective, Objective):
        raise InputError(f"objective must be an Objective, not of type {type(objective).__name__}")
    return objective.comm


@collective_call(_comm_of)
def minimize(
    objective: Objective,
    x0: np.ndarray | None = None,
    solver: str | Solver[Any] | None = None,
    preconditioner: str | Preconditioner | None = None,
    callback: Callback | None = None,
    *,
    seed: int = 0,
    homotopy: HomotopySchedule | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
    **options: Any,
) -> Result:
    """Minimize an objective.  Collective on ``objective.comm``.

    Parameters
    ----------
    objective
        Function to minimize.  It and a solver serve one run at a time, or runs within its callback.
    x0
        This rank's rows of the starting point, shape ``(local_rows, columns)`` or flat, left as
        they are; by default ``objective.initial_point(seed)``.
    solver, preconditioner
        Names or objects, by default the objective's.  A preconditioner is given, or chosen by
        default, only where a named solver has a place for it; a solver object has its own.
    callback
        Called on all ranks with an :class:`~thalweg.driver.Iterate` after each step; true ends it.
        Where the solver goes by batches, the objective is then that of the present one.
    seed
        Seed of the starting point, and of what a named solver or preconditioner draws.
    homotopy
        Stages of the objective's homotopy parameter; by default those that it proposes.
    checkpoint, resume
        Folder of checkpoints, and whether to continue from the newest, which takes the same
        objective and data (:meth:`thalweg.interfaces.Objective.identity`), options and start;
        stopping rules may change, and budgets grow.  With a folder, Ctrl-C, SIGTERM and SIGUSR1
        end the run with a result; without, they have their usual effect after it is cleaned up.
    progress
        Show how the run goes on: a bar on a terminal and in a notebook, or lines in a log.
    **options
        Stopping rules (``STOP_OPTIONS``), and options of the named solver and preconditioner.

    Raises
    ------
    InputError, CapabilityError, CheckpointError
        An argument cannot be used, or parts do not fit together; another run has the folder; the
        checkpoint is damaged or belongs to another run.
    NumericalError, KeyboardInterrupt
        The objective is not finite at the starting point; Ctrl-C, and no checkpoints.
    """
    comm = objective.comm
    with raise_on_all_ranks(comm):
        seed, folder = _checked(seed, callback, homotopy, checkpoint)
        algorithm, stop = method_of_call(objective, solver, preconditioner, options, seed)
    parts = [(type(part), _plain_fields(part)) for part in (algorithm, algorithm.preconditioner)]
    what = (*parts, seed, stop, homotopy, folder, resume)
    refuse_differing(comm, "the arguments of minimize", *what, x0 is None, options)
    run = assembled(objective, algorithm, x0, seed, homotopy=homotopy, folder=folder)
    callbacks = () if callback is None else (callback,)
    with ExitStack() as stack:
        if folder is not None:  # into which this run alone writes meanwhile
            lock = FolderLock(folder)
            on_root(comm, lock.acquire)
            stack.callback(lock.release)
        return run(stop=stop, callbacks=callbacks, resume=resume, progress=progress)


def _checked(seed: int, callback: Any, homotopy: Any, checkpoint: Any) -> tuple[int, Path | None]:
    """The seed and the folder of checkpoints, where these arguments of a call can be used."""
    if callback is not None and not callable(callback):
        kind = type(callback).__name__
        raise InputError(f"callback must be a function of one argument or None, not of type {kind}")
    if not isinstance(homotopy, HomotopySchedule | None):
        raise InputError(f"homotopy must be a HomotopySchedule, or None, not {homotopy!r}")
    # As a path, the empty name is the current folder.
    if checkpoint == "" or not isinstance(checkpoint, str | os.PathLike | None):
        raise InputError(f"checkpoint must be the name of a folder, or None, not {checkpoint!r}")
    return int(SEED.check(seed, "minimize")), None if checkpoint is None else Path(checkpoint)


def _plain_fields(part: Any) -> list[Any]:
    """Options of a part that is a dataclass: those that look the same on all ranks."""
    fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    values = [getattr(part, field.name) for field in fields if field.init]
    return [value for value in values if isinstance(value, str | int | float | None)]
