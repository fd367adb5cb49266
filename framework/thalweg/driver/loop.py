"""The one loop: set up, initialise, step until a rule says stop, and report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from thalweg.driver.checkpoint import Checkpoints
from thalweg.driver.homotopy import HomotopySchedule
from thalweg.driver.identity import name_of, preconditioner_of
from thalweg.driver.progress import Progress
from thalweg.driver.signals import SignalWatch
from thalweg.driver.state_fields import restore_state, state_fields, vecs_in
from thalweg.driver.stopping import Stop
from thalweg.errors import CheckpointError, NumericalError
from thalweg.interfaces import Homotopy, Objective, Solver, SolverState, require
from thalweg.parallel import PETSc, collective_cleanup
from thalweg.result import Result, Status, Trace

#: Trace columns that every run has; a homotopy parameter and the solver's own follow.
COLUMNS: tuple[str, ...] = (
    "iteration",
    "evaluations",
    "seconds",
    "objective",
    "gradient_norm",
    "step_length",
)


@dataclass(frozen=True)
class Iterate:
    """What a callback is shown after each step, and once before the first.

    Attributes
    ----------
    iteration, evaluations, seconds
        Counts and wall time since the start, over resumed parts too.
    objective, gradient_norm
        As in the trace.
    rows
        This rank's rows of the iterate, a read-only view that lasts until the
        callback returns.
    state
        The solver's state; read it, do not change it.
    """

    iteration: int
    evaluations: int
    seconds: float
    objective: float
    gradient_norm: float
    rows: np.ndarray
    state: SolverState


#: Called on all ranks; a true answer on any of them ends the run.
Callback = Callable[[Iterate], object]


@dataclass
class _Standing:
    """Where the run stands, beyond the solver's state; saved with it."""

    iteration: int = 0
    stage: int = 0
    stage_start: int = 0
    elapsed: float = 0.0
    previous: float | None = None


def drive(
    objective: Objective,
    solver: Solver[Any],
    x: PETSc.Vec,
    *,
    stop: Stop | None = None,
    callbacks: Sequence[Callback] = (),
    homotopy: HomotopySchedule | None = None,
    checkpoints: Checkpoints | None = None,
    resume: bool = False,
    progress: bool = False,
) -> Result:
    """Minimise an objective with a solver.  Collective on ``objective.comm``.

    Parameters
    ----------
    objective, solver
        The problem, and the algorithm with its preconditioner, which the driver
        sets up but does not destroy.
    x
        Starting point, taken over.
    stop
        Stopping rules; by default ``Stop()``.
    callbacks
        Each called with an :class:`Iterate`.
    homotopy
        Stages of the objective's homotopy parameter.
    checkpoints
        Where to save the state, at intervals and on SIGTERM, SIGUSR1 or SIGINT.  By
        default nowhere: after such a signal the run is cleaned up, and the signal
        passed on to the handlers that were there before.
    resume
        Go on from the newest checkpoint, if there is one.  ``x`` must be the
        starting point of the run that is resumed.
    progress
        Show a progress bar on rank 0's terminal.

    Raises
    ------
    CapabilityError
        The objective lacks what the solver or its preconditioner needs.
    CheckpointError
        The checkpoint is damaged or belongs to another run.
    NumericalError
        The objective is not finite at the starting point.
    KeyboardInterrupt
        Ctrl-C, and no checkpoints; on all ranks.
    """
    return _Run(objective, solver, stop or Stop(), callbacks, homotopy, checkpoints).go(
        x, resume, progress
    )


class _Run:
    """One call of :func:`drive`."""

    def __init__(
        self,
        objective: Objective,
        solver: Solver[Any],
        stop: Stop,
        callbacks: Sequence[Callback],
        homotopy: HomotopySchedule | None,
        checkpoints: Checkpoints | None,
    ) -> None:
        self.objective, self.solver, self.stop = objective, solver, stop
        self.callbacks, self.homotopy, self.checkpoints = callbacks, homotopy, checkpoints
        require(objective, solver.requires, f"solver {type(solver).__name__}")
        self.preconditioner = preconditioner_of(solver)
        if self.preconditioner is not None:
            name = f"preconditioner {type(self.preconditioner).__name__}"
            require(objective, self.preconditioner.requires, name)
        columns = COLUMNS
        if homotopy is not None:
            require(objective, (Homotopy,), "a homotopy")
        if isinstance(objective, Homotopy):
            columns = (*columns, objective.homotopy_name)
        self.trace = Trace((*columns, *solver.trace_columns))
        self.at = _Standing()
        self.state: Any = None  # the solver's, from its init on
        self.prepared = False  # whether the preconditioner is set up
        self.seconds = {"setup": 0.0, "optimize": 0.0, "checkpoint": 0.0}

    # -- the loop --------------------------------------------------------------------------

    def go(self, x: PETSc.Vec, resume: bool, progress: bool) -> Result:
        self.began = time.perf_counter()
        self.last_checkpoint = self.began
        with SignalWatch() as self.signals:
            saved = self.checkpoints.read(self.objective) if resume and self.checkpoints else None
            if saved is not None:
                self._refuse_other_parts(saved)
            with collective_cleanup(self.objective.comm, self._free):
                self._start(x, saved)
                bar = Progress(self.objective.comm, self.stop, progress)
                try:
                    status = self._status(self.state)
                    while status.running:
                        self._advance(bar)
                        status = self._status(self.state)
                finally:
                    bar.close()
                saved_now = not status.failed and self.checkpoints is not None
                if saved_now:  # a run that used up its budget may be given a larger one
                    self._save(self.state)
                # Where nothing is saved, the one who sent the signal must not be ignored.
                self.signals.answered = status is Status.INTERRUPTED and saved_now
                return self._result(self.state, status, saved_now)

    def _refuse_other_parts(self, saved: Mapping[str, Any]) -> None:
        """Refuse a state that another solver made, though its fields may have the same names."""
        for part, name in self._parts().items():
            before = saved.get("parts", {}).get(part, name)
            if before != name:
                raise CheckpointError(
                    f"the checkpoint belongs to another run: its {part} was {before} and is now "
                    f"{name}"
                )

    def _parts(self) -> dict[str, str | None]:
        return {"solver": name_of(self.solver), "preconditioner": name_of(self.preconditioner)}

    def _start(self, x: PETSc.Vec, saved: dict[str, Any] | None) -> None:
        began = time.perf_counter()
        self._enter_stage(int(saved["progress"]["stage"]) if saved else 0)
        if self.preconditioner is not None:
            self.preconditioner.setup(self.objective, x)
            self.prepared = True
        self.state = state = cast(SolverState, self.solver.init(self.objective, x))
        if saved is not None:
            restore_state(state, saved["state"])
            if self.preconditioner is not None:
                self.preconditioner.restore(saved["preconditioner"])
            self.at = _Standing(**saved["progress"])
            self.trace = Trace.from_array(self.trace.columns, saved["trace"])
            self.seconds = dict(saved["seconds"])
        elif not math.isfinite(state.value):
            raise NumericalError(f"the objective is {state.value} at the starting point")
        self.seconds["setup"] += time.perf_counter() - began
        if saved is None:
            self._record(state)

    def _advance(self, bar: Progress) -> None:
        began = time.perf_counter()
        self.at.previous = self.state.value
        self.state = state = self.solver.step(self.state)
        self.at.iteration += 1
        self.seconds["optimize"] += time.perf_counter() - began
        self._record(state)
        bar.show(self.at.iteration, state.evaluations, state.value, state.gradient_norm)
        if self._more_stages():
            status = self.objective.comm.bcast(self._stage_status(state), root=0)
            if not status.running and not status.failed:
                self.state = self._next_stage(state)

    def _status(self, state: SolverState) -> Status:
        """How the run stands, the same on all ranks: rank 0's clock, anyone's signal."""
        comm = self.objective.comm
        told = self._callbacks(state)
        due = self.checkpoints is not None and (
            time.perf_counter() - self.last_checkpoint >= self.checkpoints.interval
        )
        own = (self._elapsed(), due, self._stage_status(state))
        facts = comm.allgather((self.signals.received, told, own))
        # Rank 0's word: on a mixed cluster, norms may differ in their last bits.
        elapsed, due, status = facts[0][2]
        if status.running:
            budget = self.stop.budget(self.at.iteration, state.evaluations, elapsed)
            if any(fact[1] for fact in facts):
                status = Status.CALLBACK
            elif not budget.running:
                status = budget
            elif signals := [fact[0] for fact in facts if fact[0] is not None]:
                status = Status.INTERRUPTED
                self.signals.received = signals[0]  # all ranks end in the same way
        if due and status.running:
            self._save(state)
        return comm.bcast(status, root=0)

    def _elapsed(self) -> float:
        return self.at.elapsed + time.perf_counter() - self.began

    def _callbacks(self, state: SolverState) -> bool:
        if not self.callbacks:
            return False
        iterate = Iterate(
            self.at.iteration,
            state.evaluations,
            self._elapsed(),
            state.value,
            state.gradient_norm,
            state.x.getArray(readonly=True).reshape(-1, max(1, state.x.getBlockSize())),
            state,
        )
        answers = [callback(iterate) for callback in self.callbacks]
        return any(bool(answer) for answer in answers)

    # -- homotopy --------------------------------------------------------------------------

    def _more_stages(self) -> bool:
        return self.homotopy is not None and self.at.stage + 1 < len(self.homotopy.values)

    def _enter_stage(self, stage: int) -> None:
        self.at.stage = stage
        if self.homotopy is not None:
            if stage >= len(self.homotopy.values):
                stage = len(self.homotopy.values) - 1
            cast(Homotopy, self.objective).homotopy = self.homotopy.values[stage]

    def _next_stage(self, state: SolverState) -> SolverState:
        self._enter_stage(self.at.stage + 1)
        self.at.stage_start, self.at.previous = self.at.iteration, None
        before = vecs_in(state_fields(state))
        cast(Homotopy, self.objective).leave_trap(state.x)
        state = cast(SolverState, self.solver.reset(state))
        kept = {id(vec) for vec in vecs_in(state_fields(state))}
        for vec in before:
            if id(vec) not in kept:
                vec.destroy()
        return state

    def _stage_status(self, state: SolverState) -> Status:
        """Convergence of this stage, and in a stage that is not the last also its budget."""
        status = self.solver.status(state)
        if not status.running:
            return status
        iterations = self.at.iteration - self.at.stage_start
        rules = self.stop
        if self._more_stages():
            assert self.homotopy is not None
            rules = self.homotopy.stage
        if not self.solver.decreases:
            rules = replace(rules, decrease=None)
        status = rules.convergence(state.value, self.at.previous, state.gradient_norm, iterations)
        if status.running and self._more_stages():
            status = replace(rules, seconds=None, evaluations=None).budget(iterations, 0, 0.0)
        return status

    # -- record and checkpoint -------------------------------------------------------------

    def _record(self, state: SolverState) -> None:
        row: dict[str, float] = {
            "iteration": self.at.iteration,
            "evaluations": state.evaluations,
            "seconds": self._elapsed(),
            "objective": state.value,
            "gradient_norm": state.gradient_norm,
            "step_length": state.step_length,
        }
        if isinstance(self.objective, Homotopy):
            row[self.objective.homotopy_name] = self.objective.homotopy
        self.trace.append({**row, **self.solver.trace_row(state)})

    def _save(self, state: SolverState) -> None:
        if self.checkpoints is None:
            return
        began = time.perf_counter()
        at = replace(self.at, elapsed=self._elapsed())
        content = {
            "parts": self._parts(),
            "state": state_fields(state),
            "preconditioner": dict(self.preconditioner.state()) if self.preconditioner else {},
            "progress": vars(at),
            "seconds": self.seconds,
            "trace": self.trace.to_array(),
        }
        self.checkpoints.write(self.objective.comm, self.at.iteration, content)
        self.last_checkpoint = time.perf_counter()
        self.seconds["checkpoint"] += self.last_checkpoint - began

    def _result(self, state: SolverState, status: Status, saved: bool) -> Result:
        objective = self.objective
        began = time.perf_counter()
        rows = state.x.getArray(readonly=True).reshape(-1, max(1, state.x.getBlockSize())).copy()
        metrics = dict(objective.metrics(state.x))
        solution = np.array(objective.solution(state.x))
        return Result(
            x=rows,
            objective=float(state.value),
            status=status,
            trace=self.trace,
            iterations=self.at.iteration,
            evaluations=int(state.evaluations),
            seconds=self._phases(time.perf_counter() - began),
            layout=objective.layout,
            metrics=metrics,
            solution=solution,
            solution_layout=objective.solution_layout,
            notes=self._notes(state),
            saved=saved,
        )

    def _notes(self, state: SolverState) -> tuple[str, ...]:
        """What all parts decided, each sentence once."""
        noted = [self.objective.notes, self.solver.notes(state)]
        if self.preconditioner is not None:
            noted.insert(1, self.preconditioner.notes)
        return tuple(dict.fromkeys(sentence for notes in noted for sentence in notes))

    def _free(self) -> None:
        if self.state is not None:
            self.solver.destroy(self.state)
            for vec in vecs_in(state_fields(self.state)):
                vec.destroy()
        if self.prepared and self.preconditioner is not None:
            self.preconditioner.destroy()

    def _phases(self, measuring: float) -> dict[str, float]:
        phases = {**self.seconds, "measure": measuring}
        return {**phases, "total": self._elapsed()}
