"""The Python call: an objective, a solver, a preconditioner, by name or as objects."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.driver.checkpoint import Checkpoints
from thalweg.driver.homotopy import HomotopySchedule
from thalweg.driver.identity import identity_of, start_of
from thalweg.driver.loop import Callback, drive
from thalweg.driver.method import method_of_call
from thalweg.driver.stopping import STOP_OPTIONS, Stop
from thalweg.errors import InputError
from thalweg.interfaces import Homotopy, Objective, Preconditioner, Solver
from thalweg.lock import FolderLock
from thalweg.parallel import MPI, Array, collective_call, on_root, raise_on_all_ranks
from thalweg.plugins import Option, resolve_options
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
        Function to minimize.
    x0
        This rank's rows of the starting point, shape ``(local_rows, columns)`` or flat; by
        default ``objective.initial_point(seed)``.  Left as it is.
    solver
        A name, or a solver object; by default ``objective.default_solver``.
    preconditioner
        A name, or a preconditioner object; by default
        ``objective.default_preconditioner`` where the solver has a place for it
        (``tao:cg`` and its like have none).  None is taken beside a solver object,
        which has its own, or a solver that takes none.
    callback
        Called on all ranks with an :class:`~thalweg.driver.Iterate` after each
        step; a true answer ends the run.
    seed
        Seed of the starting point, and of what a named solver or preconditioner draws.
    homotopy
        Stages of the objective's homotopy parameter; by default what the
        objective proposes, if anything.
    checkpoint, resume
        Folder of checkpoints, and whether to continue from the newest.  With one, Ctrl-C,
        SIGTERM and SIGUSR1 end the run with a result; without, they have their usual
        effect after the run is cleaned up.  A run continues only with the same objective and
        data (see :meth:`thalweg.interfaces.Objective.identity`), options and start; its stopping
        rules may change, and its budgets grow.
    progress
        Show a progress bar.
    **options
        Stopping rules (``iterations``, ``evaluations``, ``seconds``, ``gradient``,
        ``decrease``, ``window``), by default the objective's, and options of the named solver
        and preconditioner.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        An unknown name or option, a wrong type, range or shape; a preconditioner
        that would have no place; a callback that cannot be called; a folder of
        checkpoints in which another process writes.
    CapabilityError
        The parts do not fit together.
    CheckpointError
        The checkpoint is damaged or belongs to another run.
    NumericalError
        The objective is not finite at the starting point.
    KeyboardInterrupt
        Ctrl-C, and no checkpoints.
    """
    with raise_on_all_ranks(objective.comm):
        if callback is not None and not callable(callback):
            kind = type(callback).__name__
            raise InputError(
                f"callback must be a function of one argument, or None, not of type {kind}"
            )
        if checkpoint == "":  # which as a path is the current folder
            raise InputError("checkpoint must be the name of a folder, or None, not ''")
        seed = SEED.check(seed, "minimize")
        algorithm, given = method_of_call(objective, solver, preconditioner, options, seed)
        given = {**objective.default_stop, **given}
        stop = Stop(**resolve_options(STOP_OPTIONS, given, "the stopping rules"))
    if homotopy is None and isinstance(objective, Homotopy):
        homotopy = HomotopySchedule.proposed_by(objective)
    x = starting_point(objective, x0, seed)
    checkpoints = None
    with ExitStack() as held:
        if checkpoint is not None:
            start = start_of(objective, x, x0 is not None, seed)
            identity = identity_of(objective, algorithm, homotopy, start)
            checkpoints = Checkpoints(Path(checkpoint), identity=identity)
            lock = FolderLock(checkpoints.folder)
            on_root(objective.comm, lock.acquire)
            held.callback(lock.release)
        return drive(
            objective,
            algorithm,
            x,
            stop=stop,
            callbacks=() if callback is None else (callback,),
            homotopy=homotopy,
            checkpoints=checkpoints,
            resume=resume,
            progress=progress,
        )


def proposed_start(objective: Objective, seed: int) -> Array:
    """The objective's own starting point, checked like a given one.  Collective."""
    x, name = objective.initial_point(seed), f"{type(objective).__name__}.initial_point"
    with raise_on_all_ranks(objective.comm):
        return checked_rows(x, objective.layout.shape, name)


def starting_point(objective: Objective, x0: np.ndarray | None, seed: int) -> Array:
    """This rank's rows to start from.  Collective.

    Raises
    ------
    InputError
        ``x0`` has another shape than this rank's rows, or holds what are no finite real numbers.
    """
    if x0 is None:
        return proposed_start(objective, seed)
    with raise_on_all_ranks(objective.comm):
        return checked_rows(x0, objective.layout.shape, "x0")


def checked_rows(given: Any, shape: tuple[int, int], name: str) -> np.ndarray:
    """Finite real numbers as an array of this shape or flat; else an ``InputError``."""
    try:
        array = np.asanyarray(given)  # masks included
    except ValueError as error:
        raise InputError(f"{name} must be an array of shape {shape}: {error}") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers, not {array.dtype}")
    if np.ma.is_masked(array):
        raise InputError(f"{name} has masked entries; fill them in")
    if array.shape not in (shape, (shape[0] * shape[1],)):
        raise InputError(f"{name} must have shape {shape}, not {array.shape}")
    finite = np.isfinite(array).reshape(shape).all(axis=1)
    if not finite.all():
        raise InputError(f"{name} is not finite in row {int(np.argmin(finite))}")
    return np.array(array, dtype=float, order="C").reshape(shape)
