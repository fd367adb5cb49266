"""Checks of solvers and preconditioners, as they run and resume, and of objectives on ranks."""

import copy
import dataclasses
import math
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.driver import Checkpoints, Stop, drive
from thalweg.driver.checkpoint_content import ContentWriter
from thalweg.driver.evaluations import checked_evaluations, read_only
from thalweg.interfaces import Objective, Preconditioner, Solver, SolverState, require
from thalweg.parallel import MPI, Array, agreed, on_root, sum_over_ranks
from thalweg.result import Result, Status
from thalweg.testing.probes import applied, check_symmetric, relative_error, same_bits, unit

#: Most unit vectors that a preconditioner is applied to.
UNITS = 64

#: Largest relative error of a preconditioner's symmetry and linearity: an inner iteration's.
INNER_ERROR = 1e-6


def check_preconditioner(preconditioner: Preconditioner, objective: Objective, x: Array) -> None:
    """Set a preconditioner up at ``x`` and probe it with random and unit vectors.  Collective.

    One with a memory, whose ``state`` is not empty, may give another direction
    each time, as an inner iteration that starts from the last one does: it must
    be a descent direction and be restored exactly, and is not probed for the rest.

    Raises
    ------
    AssertionError
        One sentence that says what is wrong and by how much.
    """
    require(objective, preconditioner.requires, type(preconditioner).__name__)
    preconditioner.setup(objective, x := read_only(x))
    preconditioner.update(x)
    layout, apply = objective.layout, preconditioner.apply
    residuals = [objective.layout.random_normal(seed) for seed in range(4)]
    if not preconditioner.state():
        entries = np.linspace(0, layout.size - 1, min(UNITS, layout.size)).astype(int).tolist()
        residuals += [unit(layout, index) for index in entries]
    directions = [applied(apply, layout, residual, "apply") for residual in residuals]
    reused = np.may_share_memory(directions[0], directions[-1])
    assert not reused, "apply returns the array of the call before: return a new one"
    for residual, direction in zip(residuals, directions, strict=True):
        size = layout.norm(residual) * layout.norm(direction)
        product = layout.dot(residual, direction)
        assert product > 0, (
            f"it is not positive definite: r'B⁻¹r is {product:.3e} for some r, "
            f"{product / max(size, 1e-300):.1e} relative"
        )
    if preconditioner.state():
        _check_memory(preconditioner, objective, x, residuals[0])
    else:
        for residual, direction in zip(residuals, directions, strict=True):
            same = same_bits(layout.comm, applied(apply, layout, residual, "apply"), direction)
            assert same, "it gives another direction for the same residual"
        units, images = (np.array([v.ravel() for v in of[4:]]).T for of in (residuals, directions))
        form = np.asarray(sum_over_ranks(layout.comm, units.T @ images))
        values = agreed(layout.comm, np.linalg.eigvalsh(0.5 * (form + form.T)))
        assert values[0] > -INNER_ERROR * values[-1], (
            f"it is not positive definite: r'B⁻¹r is {values[0]:.3e} for some unit r"
        )
        check_symmetric(apply, layout, residuals[0], residuals[1], "apply", INNER_ERROR)


def _check_memory(
    preconditioner: Preconditioner, objective: Objective, x: Array, residual: Array
) -> None:
    """A preconditioner that is set up anew and takes back its state acts as before."""
    state = copy.deepcopy(preconditioner.state())
    layout, apply = objective.layout, preconditioner.apply
    # As the driver does it: a step updates first, whether the run was resumed or not.
    preconditioner.update(x)
    direction = applied(apply, layout, residual, "apply")
    preconditioner.setup(objective, x)
    preconditioner.restore(state)
    preconditioner.update(x)
    assert same_bits(layout.comm, applied(apply, layout, residual, "apply"), direction), (
        "set up anew and restored from its state, it gives another direction: a resumed run would "
        "not go on to the same bits"
    )


def check_solver(
    build: Callable[[], Solver[Any]],
    objective: Objective,
    x: Array,
    *,
    steps: int = 6,
    decreasing: bool = False,
) -> None:
    """Run a solver by hand, then through the driver, interrupted and not.  Collective.

    Parameters
    ----------
    build
        Called without arguments, it returns a new solver, with a preconditioner
        of its own if it takes one.
    x
        Starting point; left as it is.
    steps
        Iterations of the short run; the resumed one is twice as long.
    decreasing
        Whether the solver promises never to raise the objective.

    Raises
    ------
    AssertionError
        One sentence that says what is wrong.
    """
    solver = build()
    name = type(solver).__name__
    frozen = dataclasses.is_dataclass(solver) and type(solver).__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert frozen, f"{name} must be a dataclass with frozen=True: nothing mutable hides in a solver"
    if solver.preconditioned:
        fields = {field.name for field in dataclasses.fields(solver)}  # type: ignore[arg-type]
        assert "preconditioner" in fields, f"{name} has no field 'preconditioner' to take one"
    require(objective, solver.requires, name)
    _check_steps(solver, objective, x, steps, decreasing)
    check_resumption(build, objective, x, steps=steps)


def check_resumption(
    build: Callable[[], Solver[Any]], objective: Objective, x: Array, *, steps: int = 6
) -> None:
    """Check that a run stopped half-way, and a step before, ends at the same bits.  Collective.

    Raises
    ------
    AssertionError
        The final iterates or traces differ.
    """

    def run(iterations: int, saved: Checkpoints | None = None, resume: bool = False) -> Result:
        rules = Stop(iterations=iterations, decrease=None)
        return drive(objective, build(), x.copy(), stop=rules, checkpoints=saved, resume=resume)

    made = on_root(objective.comm, lambda: tempfile.mkdtemp(prefix="thalweg-check-"))
    checkpoints = Checkpoints(Path(made))
    try:
        run(max(1, steps - 1), checkpoints)  # shows what counts steps by a divisor of the others
        run(steps, checkpoints, resume=True)
        whole = run(2 * steps)  # now, so that nothing left in the process serves the next run
        resumed = run(2 * steps, checkpoints, resume=True)
    finally:
        objective.comm.Barrier()
        if objective.comm.rank == 0:
            shutil.rmtree(made, ignore_errors=True)
    gap = max(objective.comm.allgather(float(np.abs(resumed.x - whole.x).max(initial=0.0))))
    assert gap == 0.0, (
        f"a run that was stopped by iteration {steps} and resumed ends {gap:.1e} away from one "
        f"that was not: something that steps depend on is missing from the state"
    )
    for column in (name for name in whole.trace.columns if name != "seconds"):
        equal = np.array_equal(whole.trace[column], resumed.trace[column], equal_nan=True)
        assert equal, f"column '{column}' of the trace differs after resuming"


def _check_steps(
    solver: Solver[Any], objective: Objective, x: Array, steps: int, decreasing: bool
) -> None:
    hidden = {field.name: repr(getattr(solver, field.name)) for field in dataclasses.fields(solver)}  # type: ignore[arg-type]
    with checked_evaluations(objective, solver.preconditioner) as made:
        if solver.preconditioned and solver.preconditioner is not None:
            solver.preconditioner.setup(objective, x)
        state = solver.init(objective, x.copy())
        assert isinstance(state, SolverState), (
            f"init returns a {type(state).__name__}, not a SolverState"
        )
        content = _check_state(solver, objective, state, "after init")
        first, done, asked = state, 0, 0
        while done < steps and solver.status(state).running:
            before, counted = state, made.count
            state = solver.step(state)
            done, asked = done + 1, asked + made.count - counted
            where = f"after step {done}"
            assert all(objective.comm.allgather(_content(objective, before) == content)), (
                f"{where} the state before it is another: a step returns a new state"
            )
            content = _check_state(solver, objective, state, where)
            assert state.evaluations >= before.evaluations, (
                f"{where} the count of evaluations fell from {before.evaluations} to "
                f"{state.evaluations}"
            )
            slack = 1e-12 * max(abs(before.value), abs(state.value))
            assert not decreasing or state.value <= before.value + slack, (
                f"{where} the objective rose from {before.value:.10g} to {state.value:.10g}"
            )
    for name, text in hidden.items():
        if name != "preconditioner":
            now = repr(getattr(solver, name))
            assert now == text, f"option '{name}' changed from {text} to {now} during the run"
    assert not asked or state.evaluations > first.evaluations, (
        f"{done} steps evaluated the objective {asked} times, and the count of evaluations is "
        f"{state.evaluations} as after init: no limit on it would end a run"
    )
    moved = any(objective.comm.allgather(bool((state.x != first.x).any())))
    if not moved and done and not solver.status(state).running:
        slope = objective.layout.norm(objective.value_and_gradient(state.x)[1])
        assert slope == 0.0, "it ends where it began"
    rising = solver.decreases and not solver.stochastic and state.value > first.value
    assert not rising, (
        f"{done} steps took the objective from {first.value:.10g} up to {state.value:.10g}; a "
        "solver that need not lower it says decreases = False"
    )
    solver.close(state)


def _content(objective: Objective, state: SolverState) -> str:
    """What a checkpoint would hold of a state."""
    writer = ContentWriter(objective, Path())
    text, rows = writer.encode(state, ""), [array for array, _ in writer.rows.values()]
    return repr((text, [array.tobytes() for array in (*writer.arrays.values(), *rows)]))


def _check_state(solver: Solver[Any], objective: Objective, state: SolverState, where: str) -> str:
    """Check a state; its content."""
    try:
        content = _content(objective, state)
    except TypeError as error:
        raise AssertionError(f"{where} {error}") from error
    assert isinstance(state.evaluations, int | np.integer), (
        f"{where} the count of evaluations is {state.evaluations!r}, not an integer"
    )
    status = solver.status(state)
    assert isinstance(status, Status), f"status returns {status!r}, not a Status"
    numbers = objective.comm.allgather((repr(float(state.value)), status.name))
    assert len(set(numbers)) == 1, f"{where} the ranks do not agree on value and status: {numbers}"
    unknown = dict(solver.trace_row(state)).keys() - set(solver.trace_columns)
    assert not unknown, f"trace_row returns {sorted(unknown)}, which trace_columns does not declare"
    if status.failed:
        return content
    there = float(objective.value(state.x))
    assert math.isclose(state.value, there, rel_tol=1e-7, abs_tol=1e-10), (
        f"{where} the state's value is {state.value!r}, the objective at its x is {there!r}"
    )
    if state.gradient is not None and not math.isnan(state.gradient_norm):
        norm, gradient = objective.layout.norm, objective.value_and_gradient(state.x)[1]
        size, gap = norm(gradient), norm(gradient - state.gradient)
        assert gap <= 1e-6 * max(size, 1e-8), (
            f"{where} the state's gradient is {gap:.1e} away from the gradient at its x"
        )
        assert math.isclose(state.gradient_norm, size, rel_tol=1e-6, abs_tol=1e-8), (
            f"{where} the state's gradient_norm is {state.gradient_norm!r}, that of its gradient "
            f"{size!r}"
        )
    return content


def check_same_start(objective: Objective) -> None:
    """Check that the starting point is the same whenever it is asked for.  Collective."""
    first, second = objective.initial_point(0), objective.initial_point(0)
    assert same_bits(objective.comm, first, second), "initial_point(0) gives two different points"


def check_ranks(
    build: Callable[[MPI.Comm], Objective], comm: MPI.Comm, *, tolerance: float = 1e-9
) -> None:
    """Check that an objective does not depend on the number of ranks.  Collective.

    Parameters
    ----------
    build
        Called with a communicator, it returns the objective on those ranks.  It
        is called with ``comm``, and by each rank with ``MPI.COMM_SELF``.
    tolerance
        Largest relative difference of values and gradients.

    Raises
    ------
    AssertionError
        Starting point, value or gradient differ between one rank and ``comm``.
    """
    norm, shared, alone = np.linalg.norm, build(comm), build(MPI.COMM_SELF)
    x, y = shared.initial_point(0), alone.initial_point(0)
    here, whole = shared.layout.gather_rows(x), alone.layout.gather_rows(y)
    ranks = f"{comm.size} ranks"
    assert here.shape == whole.shape, f"the shape is {here.shape} on {ranks}, {whole.shape} on one"
    gap = float(norm(here - whole)) / max(float(norm(whole)), 1e-300)
    tolerance = max(tolerance, error := relative_error(alone, y))
    assert gap <= max(1e-12, error), (
        f"the starting point on {ranks} differs from that on one by {gap:.1e} relative: draw it "
        f"with Layout.random_normal"
    )
    value, gradient = shared.value_and_gradient(x)
    every = shared.layout.gather_rows(gradient)
    reference, slopes = alone.value_and_gradient(y)
    gap = abs(value - reference) / max(abs(reference), 1e-300)
    assert gap <= tolerance, (
        f"the value is {value!r} on {ranks} and {reference!r} on one: {gap:.1e} relative"
    )
    gap = float(norm(every - slopes)) / max(float(norm(slopes)), 1e-300)
    assert gap <= tolerance, f"the gradients on {ranks} and on one differ by {gap:.1e} relative"
