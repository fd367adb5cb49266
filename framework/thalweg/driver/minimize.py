"""The Python call: an objective, a solver, a preconditioner, by name or as objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.driver.checkpoint import Checkpoints
from thalweg.driver.homotopy import HomotopySchedule
from thalweg.driver.identity import identity_of, start_of
from thalweg.driver.loop import Callback, drive
from thalweg.driver.stopping import STOP_OPTIONS, Stop
from thalweg.errors import InputError, suggestion
from thalweg.interfaces import (
    AttractiveLaplacian,
    Homotopy,
    Objective,
    Preconditioner,
    Solver,
    missing_capabilities,
    require,
)
from thalweg.parallel import PETSc, collective_call
from thalweg.plugins import Option, PreconditionerSpec, SolverSpec, plugins, resolve_options
from thalweg.result import Result


@collective_call(lambda objective, *_, **__: objective.comm)
def minimize(
    objective: Objective,
    x0: np.ndarray | PETSc.Vec | None = None,
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
    """Minimise an objective.  Collective on ``objective.comm``.

    Parameters
    ----------
    objective
        What to minimise.
    x0
        This rank's rows of the starting point, shape ``(local_rows, columns)``, or
        a ``Vec``; by default ``objective.initial_point(seed)``.  Left as it is.
    solver
        A name, or a solver object; by default ``"lbfgs"``.
    preconditioner
        A name, or a preconditioner object; by default ``"spectral"`` where the
        objective has an attractive Laplacian and the solver has a place for it
        (``tao:cg`` and its like have none), else ``"identity"``.  None is taken
        beside a solver object, which has its own, or a solver that takes none.
    callback
        Called on all ranks with an :class:`~thalweg.driver.Iterate` after each
        step; a true answer ends the run.
    seed
        Seed of the starting point.
    homotopy
        Stages of the objective's homotopy parameter; by default what the
        objective proposes, if anything.
    checkpoint, resume
        Folder of checkpoints, and whether to go on from the newest.  With one, Ctrl-C,
        SIGTERM and SIGUSR1 end the run with a result; without, they have their usual
        effect after the run is cleaned up.  A run goes on only with the objective, the
        options and the start of before; its stopping rules may change.
    progress
        Show a progress bar.
    **options
        Stopping rules (``iterations``, ``evaluations``, ``seconds``, ``gradient``,
        ``decrease``) and options of the named solver and preconditioner.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        An unknown name or option, a wrong type, range or shape; a preconditioner
        that would have no place.
    CapabilityError
        The parts do not fit together.
    CheckpointError
        The checkpoint is damaged or belongs to another run.
    NumericalError
        The objective is not finite at the starting point.
    KeyboardInterrupt
        Ctrl-C, and no checkpoints.
    """
    _refuse_without_place(solver, preconditioner)
    stop_given, solver_given, preconditioner_given = _sort_options(
        objective, solver, preconditioner, options
    )
    stop = Stop(**resolve_options(STOP_OPTIONS, stop_given, "the stopping rules"))
    if isinstance(solver, Solver):
        algorithm = solver
    else:
        takes = _takes(solver or "lbfgs", preconditioner, solver_given)
        chosen = preconditioner
        if takes and not isinstance(chosen, Preconditioner):
            name = chosen or default_preconditioner(objective)
            chosen = build_preconditioner(objective, name, preconditioner_given)
        algorithm = build_solver(
            objective,
            solver or "lbfgs",
            solver_given,
            chosen if isinstance(chosen, Preconditioner) else None,
        )
    if homotopy is None and isinstance(objective, Homotopy):
        homotopy = HomotopySchedule.proposed_by(objective)
    x = starting_point(objective, x0, seed)
    checkpoints = None
    if checkpoint is not None:
        start = start_of(objective, x, x0 is not None, seed)
        identity = identity_of(objective, algorithm, homotopy, start)
        checkpoints = Checkpoints(Path(checkpoint), identity=identity)
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


def starting_point(objective: Objective, x0: np.ndarray | PETSc.Vec | None, seed: int) -> PETSc.Vec:
    """A new vector to start from.  Collective.

    Raises
    ------
    InputError
        ``x0`` has another shape than this rank's rows, or is not finite.
    """
    if x0 is None:
        return objective.initial_point(seed)
    if isinstance(x0, PETSc.Vec):
        return x0.copy()
    layout = objective.layout
    block = np.asarray(x0, dtype=float)
    wanted = (layout.local_rows, layout.columns)
    fits = block.size == wanted[0] * wanted[1] and block.ndim <= 2
    if not all(objective.comm.allgather(fits)):
        raise InputError(f"x0 must have shape {wanted}, this rank's rows, not {block.shape}")
    if not all(objective.comm.allgather(bool(np.isfinite(block).all()))):
        raise InputError("x0 must be finite")
    return layout.vec_from(block)


def find_solver(name: str) -> tuple[SolverSpec, dict[str, Any]]:
    """Spec of a solver, and the option that a ``name:TYPE`` form fills."""
    return plugins().find(SolverSpec, name)


def _refuse_without_place(
    solver: str | Solver[Any] | None, preconditioner: str | Preconditioner | None
) -> None:
    """Raise where a preconditioner is given that nobody would use."""
    if preconditioner is None:
        return
    if isinstance(solver, Solver):
        name = type(solver).__name__
        if solver.preconditioned:
            raise InputError(
                f"the solver is an object already: give it its preconditioner, as in "
                f"{name}(preconditioner=...), or name the solver"
            )
        raise InputError(f"solver {name} takes no preconditioner; leave it out")
    spec, _ = find_solver(solver or "lbfgs")
    if not spec.resolve().preconditioned:
        raise InputError(f"{spec.owner} takes no preconditioner; leave it out")


def _takes(
    solver: str, preconditioner: str | Preconditioner | None, given: Mapping[str, Any]
) -> bool:
    """Whether a preconditioner is to be built: one that is asked for, or that has a place."""
    spec, fixed = find_solver(solver)
    code = spec.resolve()
    if not code.preconditioned or preconditioner is not None:
        return bool(code.preconditioned)
    return bool(code.takes_preconditioner({**given, **fixed}))


def default_preconditioner(objective: Objective) -> str:
    """``"spectral"`` where the objective has an attractive Laplacian, else ``"identity"``."""
    known = {spec.name for spec in plugins().specs(PreconditionerSpec)}
    if isinstance(objective, AttractiveLaplacian) and "spectral" in known:
        return "spectral"
    return "identity"


def build_preconditioner(
    objective: Objective, name: str, given: Mapping[str, Any]
) -> Preconditioner:
    """The named preconditioner with checked options.

    Raises
    ------
    CapabilityError
        The objective lacks what it needs; those that would fit are named.
    """
    spec, fixed = plugins().find(PreconditionerSpec, name)
    build = spec.resolve()
    _require(objective, build, spec, PreconditionerSpec)
    return spec.build(options=plugins().options(spec, {**given, **fixed}))  # type: ignore[no-any-return]


def build_solver(
    objective: Objective,
    name: str,
    given: Mapping[str, Any],
    preconditioner: Preconditioner | None,
) -> Solver[Any]:
    """The named solver with checked options, round the preconditioner if it takes one.

    Raises
    ------
    CapabilityError
        The objective lacks what it needs; those that would fit are named.
    InputError
        A preconditioner is given to a solver that takes none.
    """
    spec, fixed = find_solver(name)
    build = spec.resolve()
    _require(objective, build, spec, SolverSpec)
    options = plugins().options(spec, {**given, **fixed})
    if build.preconditioned:
        return spec.build(options=options, preconditioner=preconditioner)  # type: ignore[no-any-return]
    if preconditioner is not None:
        raise InputError(f"solver '{name}' takes no preconditioner; leave it out")
    return spec.build(options=options)  # type: ignore[no-any-return]


def _require(
    objective: Objective,
    build: Any,
    spec: SolverSpec | PreconditionerSpec,
    kind: type[SolverSpec] | type[PreconditionerSpec],
) -> None:
    if missing_capabilities(objective, build.requires):
        fitting = [
            other.name
            for other in plugins().specs(kind)
            if not missing_capabilities(objective, getattr(other.resolve(), "requires", ()))
        ]
        require(objective, build.requires, spec.owner, fitting)


def _sort_options(
    objective: Objective,
    solver: str | Solver[Any] | None,
    preconditioner: str | Preconditioner | None,
    given: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Give each option to the part that has it: stopping rules, solver, preconditioner."""
    groups: list[tuple[str, tuple[Option, ...]]] = [("the stopping rules", STOP_OPTIONS)]
    takes = False
    if isinstance(solver, Solver):
        groups.append((f"solver {type(solver).__name__}", ()))
    else:
        spec = find_solver(solver or "lbfgs")[0]
        takes = _takes(solver or "lbfgs", preconditioner, given)
        groups.append((spec.owner, spec.declared_options))
    if takes and not isinstance(preconditioner, Preconditioner):
        name = preconditioner or default_preconditioner(objective)
        other = plugins().find(PreconditionerSpec, name)[0]
        groups.append((other.owner, other.declared_options))
    else:
        groups.append(("", ()))
    sorted_options: tuple[dict[str, Any], ...] = ({}, {}, {})
    for option, value in given.items():
        owners = [k for k, (_, known) in enumerate(groups) if option in {o.name for o in known}]
        if not owners:
            every = [o.name for _, known in groups for o in known]
            listed = ", ".join(owner for owner, known in groups if known)
            raise InputError(f"no option '{option}' in {listed}{suggestion(option, every)}")
        if len(owners) > 1:
            listed = " and ".join(groups[k][0] for k in owners)
            raise InputError(
                f"option '{option}' is one of {listed}: build the object and pass it instead"
            )
        sorted_options[owners[0]][option] = value
    return sorted_options[0], sorted_options[1], sorted_options[2]
