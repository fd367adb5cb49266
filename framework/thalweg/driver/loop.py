"""The one loop: set up, initialize, step until a rule says stop, and report."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from thalweg.driver.agreement import status_along_gradient
from thalweg.driver.checkpoint import Checkpoints
from thalweg.driver.checkpoint_content import (
    refusing_malformed,
    restored,
)
from thalweg.driver.evaluations import checked_evaluations, read_only
from thalweg.driver.homotopy import EARLY_STAGES, HomotopySchedule
from thalweg.driver.identity import name_of, preconditioner_of
from thalweg.driver.progress import Progress, ProgressBar
from thalweg.driver.signals import SignalWatch
from thalweg.driver.stopping import Stop
from thalweg.errors import CheckpointError, NumericalError, StorageError
from thalweg.interfaces import (
    Homotopy,
    ManifoldVariable,
    Objective,
    Solver,
    SolverState,
    require,
)
from thalweg.parallel import Array, on_root, phase, values_of_all_ranks
from thalweg.parallel.failures import collective_cleanup
from thalweg.parallel.kernels import run_clock
from thalweg.parallel.threads import threads_for
from thalweg.plugins import citation, specs_of
from thalweg.result import Result, Status, Trace

_LOG = logging.getLogger("thalweg")

#: Relative change of the value at a restored point that other ranks or machines may cause.
RESTORED_ERROR = 1e-5

#: As which numbers statuses travel.
_STATUSES = tuple(Status)

#: Trace columns that every run has; a homotopy parameter and the solver's own follow.
COLUMNS: tuple[str, ...] = (
    "iteration",
    "evaluations",
    "seconds",
    "objective",
    "gradient_norm",
    "step_length",
)

#: Columns of a homotopy, after that of its parameter: the number of the stage, from 0, and the
#: objective with the parameter of the last, NaN where the objective at hand does not tell it.
STAGE_COLUMNS: tuple[str, ...] = (Trace.STAGE, "wanted_objective")


@dataclass(frozen=True)
class Iterate:
    """Argument of a callback after each step, and once before the first.

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


def drive(
    objective: Objective,
    solver: Solver[Any],
    x: Array,
    *,
    stop: Stop | None = None,
    callbacks: Sequence[Callback] = (),
    homotopy: HomotopySchedule | None = None,
    checkpoints: Checkpoints | None = None,
    resume: bool = False,
    progress: bool = False,
    measure: bool = True,
) -> Result:
    """Minimize an objective with a solver.  Collective on ``objective.comm``.

    Parameters
    ----------
    objective, solver
        The problem, and the algorithm with its preconditioner, which the driver
        sets up but does not close.
    x
        This rank's rows of the starting point.
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
        Continue from the newest checkpoint, if there is one.  ``x`` must be the
        starting point of the run that is resumed.
    progress
        Show a progress bar on rank 0's terminal.
    measure
        Whether the result has the objective's metrics, which may take long.

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
    run = _Run(objective, solver, stop or Stop(), callbacks, homotopy, checkpoints, measure)
    with threads_for(objective.terms):
        return run.run(x, resume, progress)


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
        measure: bool,
    ) -> None:
        self.objective, self.solver, self.stop, self.measure = objective, solver, stop, measure
        self.callbacks, self.homotopy, self.checkpoints = callbacks, homotopy, checkpoints
        require(objective, solver.requires, f"solver {type(solver).__name__}")
        self.preconditioner = preconditioner_of(solver)
        if self.preconditioner is not None:
            name = f"preconditioner {type(self.preconditioner).__name__}"
            require(objective, self.preconditioner.requires, name)
        columns = COLUMNS
        if homotopy is not None:
            require(objective, (Homotopy,), "a homotopy")
            for value in homotopy.values:
                cast(Homotopy, objective).check_homotopy(value)
        if isinstance(objective, Homotopy):
            columns += (objective.homotopy_name, *(STAGE_COLUMNS if homotopy is not None else ()))
        self.trace = Trace((*columns, *solver.trace_columns))
        self.at = Progress()
        self.state: Any = None  # the solver's, from its init on
        self.prepared = False  # whether the preconditioner is set up
        self.seconds = {"setup": 0.0, "optimize": 0.0, "checkpoint": 0.0}
        self.last_good: Any = None  # the state at the last finite iterate
        self.confirming = 0  # evaluations that confirmed how the run ended
        self.unsaved: list[str] = []  # why checkpoints could not be written

    # -- the loop --------------------------------------------------------------------------

    def run(self, x: Array, resume: bool, progress: bool) -> Result:
        self.began = run_clock()
        self.last_checkpoint = time.perf_counter()
        with SignalWatch() as self.signals:
            with refusing_malformed():
                old = self._read() if resume else None
            comm = self.objective.comm
            checks = checked_evaluations(self.objective, self.preconditioner)
            with collective_cleanup(comm, self._free), checks:
                self._start(x, old)
                bar = ProgressBar(comm, self.stop, progress, self._last_stage + 1)
                try:
                    status = self._status(self.state) if self._follow() else Status.DIVERGED
                    while status.running:
                        finite = self._advance(bar) and self._follow()
                        status = self._status(self.state) if finite else Status.DIVERGED
                    status = self._confirmed(status)
                finally:
                    bar.close()
                # A run that reached its limit may be given a larger one.
                saved = not status.failed and self._save(self.state)
                # Without checkpoints, the one who sent the signal must not be ignored.
                self.signals.answered = (
                    status is Status.INTERRUPTED and self.checkpoints is not None
                )
                return self._result(self.state, status, saved)

    def _read(self) -> dict[str, Any] | None:
        """The newest checkpoint from which this run can go on, None where there is none."""
        saved = self.checkpoints.read(self.objective) if self.checkpoints else None
        if saved is None:
            return None
        for part, name in self._parts().items():
            # Fields of another solver's state may have the same names.
            before = saved.get("parts", {}).get(part, name)
            if before != name:
                raise CheckpointError(
                    f"the checkpoint belongs to another run: its {part} was {before} and is now "
                    f"{name}"
                )
        cut = saved["progress"].get("cut")
        if cut and self.stop.budget(*cut, share=EARLY_STAGES).running:
            # These budgets would not have ended the early stages there: go on with them.
            return self._uncut.read(self.objective)
        return saved

    @property
    def _uncut(self) -> Checkpoints:
        """Where the state is saved at which a budget ends the early stages of a homotopy."""
        assert self.checkpoints is not None
        return replace(self.checkpoints, folder=self.checkpoints.folder / "early-stages")

    def _refuse_other_value(self, state: SolverState) -> None:
        """Refuse a state whose value is another now: an identity may not see all of the data."""
        if not self.solver.decreases or self.solver.stochastic:
            return  # whose values may be those of a part of the problem
        known, value = state.value, float(self.objective.value(state.x))
        largest = max(abs(known), abs(value))
        terms = max(largest, abs(self.trace["objective"][0]))  # which may have canceled
        allowed = RESTORED_ERROR * largest + 10.0 * float(self.objective.value_error(terms))
        if not values_of_all_ranks(self.objective.comm, abs(value - known) <= allowed)[0]:
            raise CheckpointError(
                f"the checkpoint belongs to another run: the objective at its point was {known!r} "
                f"and is now {value!r}; the data, or the code, are others"
            )

    def _parts(self) -> dict[str, str | None]:
        return {"solver": name_of(self.solver), "preconditioner": name_of(self.preconditioner)}

    @phase("setup")
    def _start(self, x: Array, saved: dict[str, Any] | None) -> None:
        began = run_clock()
        # What the preconditioner takes from the homotopy parameter, it takes from the first.
        self._enter_stage(0)
        if self.preconditioner is not None:
            self.preconditioner.setup(self.objective, x)
            self.prepared = True
        if saved is not None:
            with refusing_malformed():
                self._enter_stage(int(saved["progress"]["stage"]))
        elif self._more_stages() and not self.stop.budget(0, 0, 0.0, share=EARLY_STAGES).running:
            self.at.cut = [0, 0, 0.0, 0]
            self._enter_stage(self._last_stage)
        self.state = state = cast(SolverState, self.solver.init(self.objective, x))
        if saved is not None:
            with refusing_malformed():
                self.state = state = restored(state, saved["state"])
                if self.preconditioner is not None:
                    own = self.preconditioner.state()
                    self.preconditioner.restore(restored(own, saved["preconditioner"]))
                kinds = {name: type(value) for name, value in vars(self.at).items()}
                numbers = {key: kinds[key](value) for key, value in saved["progress"].items()}
                self.at = Progress(**numbers)
                self.trace = Trace.from_array(self.trace.columns, saved["trace"])
                self.seconds = {name: float(saved["seconds"][name]) for name in self.seconds}
                list(map(float, (state.value, *self.at.values)))
                if state.x.shape != self.objective.layout.shape:
                    raise ValueError(f"an iterate of shape {state.x.shape}")
            self._refuse_other_value(state)
        elif not math.isfinite(state.value):
            raise NumericalError(f"the objective is {state.value} at the starting point")
        elif not _is_finite(state):
            raise NumericalError("the gradient is not finite at the starting point")
        if saved is None:
            self.state = state = self._with_gradient_norm(state)
        self.last_good = state
        self.seconds["setup"] += run_clock() - began
        if saved is None:
            self.at.values = [state.value]
            self._record(state)

    @phase("optimize")
    def _advance(self, bar: ProgressBar) -> bool:
        """One step; False if it left the finite numbers, and the iterate before is back."""
        began = run_clock()
        self.state = state = self._with_gradient_norm(self.solver.step(self.state))
        self.seconds["optimize"] += run_clock() - began
        if not self._keep_finite():
            return False
        self.at.iteration += 1
        self._note_value(state)
        bar.show(self._record(state))
        return True

    def _with_gradient_norm(self, state: SolverState) -> SolverState:
        """The state with what the rule on the gradient asks for, where the solver has none."""
        rules = [self.stop] if self.homotopy is None else [self.stop, self.homotopy.stage]
        if not self.solver.derivative_free or all(rule.gradient is None for rule in rules):
            return state
        gradient = self.objective.value_and_gradient(state.x)[1]
        norm = self.objective.layout.norm(gradient)
        return replace(state, gradient_norm=norm, evaluations=state.evaluations + 1)

    def _note_value(self, state: SolverState) -> None:
        """Keep the values that the rule on the decrease compares: of iterations, or of epochs."""
        value = state.value
        if self.solver.stochastic:
            if state.epoch == self.at.epoch:
                return
            # The value at the start is that of a part, with which no epoch compares.
            self.at.values = self.at.values if self.at.epoch else []
            self.at.epoch, value = state.epoch, state.epoch_value
        window = max(self.stop.window, self.homotopy.stage.window if self.homotopy else 1)
        self.at.values = [*self.at.values, value][-1 - window :]

    def _keep_finite(self) -> bool:
        """Whether the iterate is finite; the last one that was is put back in place of another."""
        state, good = self.state, self.last_good
        finite = bool(values_of_all_ranks(self.objective.comm, _is_finite(state))[0])
        if not finite:
            names = ("x", "value", "gradient", "gradient_norm")
            self.state = state = replace(state, **{name: getattr(good, name) for name in names})
        self.last_good = state
        return finite

    def _confirmed(self, status: Status) -> Status:
        """Evaluate again where a solver found no descent, to tell faults from noise.

        An objective that is no longer finite makes every step fail, and so does a gradient that
        is not that of the value.
        """
        state, values = self.state, self.at.values
        flat = status is Status.SMALL_DECREASE and min(values) == max(values)
        if not (flat or status is Status.PRECISION_LIMIT) or state.gradient is None:
            return status
        value, gradient = self.objective.value_and_gradient(state.x)
        self.confirming += 1
        error = self._error(state)
        if not (math.isfinite(value) and math.isfinite(self.objective.layout.norm(gradient))):
            status = Status.DIVERGED
        elif isinstance(self.objective, ManifoldVariable):
            pass  # it is not to be moved along its gradient
        elif (found := self._along(gradient, value, error)).failed:
            status = found
        elif not flat and error > 2.0 * Objective.value_error(self.objective, state.value):
            status = Status.NOISE_LIMIT
        return self._agreed(status)

    def _along(self, gradient: Array, value: float, error: float) -> Status:
        """Whether the values along the gradient are those that it predicts."""
        x, norm = self.state.x, self.objective.layout.norm

        def change(step: float) -> float:
            self.confirming += 1
            return self.objective.value(x + step * gradient) - value

        norms = np.array([norm(gradient), max(1.0, norm(x))])
        norms = values_of_all_ranks(self.objective.comm, norms)[0]
        status = status_along_gradient(change, value, error, *norms.tolist())
        return status

    def _error(self, state: SolverState) -> float:
        return float(self.objective.value_error(state.value))

    def _status(self, state: SolverState) -> Status:
        """Status of the run, the same on all ranks, by rank 0's clock and any rank's signal."""
        comm = self.objective.comm
        stop_requested = self._callbacks(state)
        due = self.checkpoints is not None and (
            time.perf_counter() - self.last_checkpoint >= self.checkpoints.interval
        )
        status = self._stage_status(state)
        if self._more_stages() and not status.failed:
            status = Status.RUNNING  # what ends a stage leads to the next
        own = _STATUSES.index(status)
        facts = (self.signals.received or 0, stop_requested, self._elapsed(), due, own)
        signals, stops, *known = values_of_all_ranks(comm, np.array(facts, dtype=float)).T
        # Rank 0's word: on a mixed cluster, norms may differ in their last bits.
        elapsed, due, status = known[0][0], bool(known[1][0]), _STATUSES[int(known[2][0])]
        if status.running:
            budget = self.stop.budget(self.at.iteration, state.evaluations, elapsed, self.at.epoch)
            if stops.any():
                status = Status.CALLBACK
            elif not budget.running:
                status = budget
            elif signals.any():
                status = Status.INTERRUPTED
                self.signals.received = int(signals[signals > 0][0])  # all ranks end in one way
        if due and status.running:
            self._save(state)
        return status

    def _agreed(self, status: Status) -> Status:
        """The status as rank 0 has it.  Collective."""
        return _STATUSES[values_of_all_ranks(self.objective.comm, _STATUSES.index(status))[0]]

    def _elapsed(self) -> float:
        return self.at.elapsed + run_clock() - self.began

    def _callbacks(self, state: SolverState) -> bool:
        if not self.callbacks:
            return False
        iterate = Iterate(
            self.at.iteration,
            state.evaluations,
            self._elapsed(),
            state.value,
            state.gradient_norm,
            read_only(state.x),
            state,
        )
        return True in [bool(callback(iterate)) for callback in self.callbacks]

    # -- homotopy --------------------------------------------------------------------------

    @property
    def _last_stage(self) -> int:
        return 0 if self.homotopy is None else len(self.homotopy.values) - 1

    def _more_stages(self) -> bool:
        return self.at.stage < self._last_stage

    def _follow(self) -> bool:
        """Go on to the next stage where one has ended, to the last where a budget demands it.

        Collective.  False if the objective is not finite there, and the iterate before is back.
        """
        while self._more_stages():
            used = [self.at.iteration, self.state.evaluations, self._elapsed(), self.at.epoch]
            cut = not self.stop.budget(*used, share=EARLY_STAGES).running
            own = np.array((_STATUSES.index(self._stage_status(self.state)), cut))
            number, cut = values_of_all_ranks(self.objective.comm, own)[0]
            status = _STATUSES[number]
            if status.failed or (status.running and not cut):
                break
            if cut and self.checkpoints is not None:
                self._save(self.state, self._uncut)
            self.at.cut = used if cut else []
            stage = self._last_stage if cut else self.at.stage + 1
            self.state = self._next_stage(self.state, stage)
            if not self._keep_finite():
                return False
        return True

    def _enter_stage(self, stage: int) -> None:
        self.at.stage = stage
        if self.homotopy is not None:
            value = self.homotopy.values[min(stage, self._last_stage)]
            cast(Homotopy, self.objective).homotopy_parameter = value

    def _next_stage(self, state: SolverState, stage: int) -> SolverState:
        self._enter_stage(stage)
        self.at.stage_start = self.at.iteration
        x = cast(Homotopy, self.objective).escape_stationary_point(state.x)
        state = cast(SolverState, self.solver.reset(replace(state, x=x)))
        self.at.values = [state.value]
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
        if self.solver.derivative_free or not self.solver.decreases:
            rules = replace(rules, decrease=None)
        # A small gradient of a part says little.
        norm = state.gradient_norm if state.whole else math.nan
        status = rules.convergence(self.at.values, norm, self._error(state))
        if status.running and self._more_stages():
            status = replace(rules, seconds=None, evaluations=None).budget(iterations, 0, 0.0)
        return status

    # -- record and checkpoint -------------------------------------------------------------

    def _record(self, state: SolverState) -> dict[str, float]:
        counts = (self.at.iteration, state.evaluations, self._elapsed())
        measures = (state.value, state.gradient_norm, state.step_length)
        row: dict[str, float] = dict(zip(COLUMNS, (*counts, *measures), strict=True))
        if isinstance(self.objective, Homotopy):
            parameter = self.objective.homotopy_parameter
            row[self.objective.homotopy_name] = parameter
            if self.homotopy is not None:
                wanted, known = self.homotopy.values[-1], state.value
                if parameter != wanted:
                    known = self.objective.value_at(wanted, state.value)
                row.update(stage=self.at.stage, wanted_objective=known)
        self.trace.append({**row, **self.solver.trace_row(state)})
        return row

    @phase("checkpoint")
    def _save(self, state: SolverState, checkpoints: Checkpoints | None = None) -> bool:
        """Write a checkpoint, by default the run's, if there are any; False if none was written.

        A disk that is full ends no run: what was written stays, and at the next
        interval there may be room again.
        """
        checkpoints = checkpoints or self.checkpoints
        if checkpoints is None:
            return False
        began, failures = time.perf_counter(), len(self.unsaved)
        content = {
            "parts": self._parts(),
            "state": state,
            "preconditioner": self.preconditioner.state() if self.preconditioner else {},
            "progress": vars(replace(self.at, elapsed=self._elapsed())),
            "seconds": self.seconds,
            "trace": on_root(self.objective.comm, self.trace.to_array),
        }
        try:
            checkpoints.write(self.objective, self.at.iteration, content)
        except StorageError as error:
            self.unsaved.append(f"at iteration {self.at.iteration}: {error}")
            if self.objective.comm.rank == 0:
                _LOG.warning("the run continues without a checkpoint %s", self.unsaved[-1])
        self.last_checkpoint = time.perf_counter()
        self.seconds["checkpoint"] += self.last_checkpoint - began
        return len(self.unsaved) == failures

    @phase("measure")
    def _result(self, state: SolverState, status: Status, saved: bool) -> Result:
        objective = self.objective
        began = run_clock()
        rows = np.array(state.x)
        value = float(state.value)
        if self.solver.stochastic and not status.failed:
            value = float(self.solver.whole_value(state))
            self.confirming += 1
        metrics = dict(self._metrics(state, status))
        solution = np.array(objective.solution(state.x))
        seconds = {**self.seconds, "measure": run_clock() - began, "total": self._elapsed()}
        return Result(
            x=rows,
            objective=value,
            status=status,
            trace=self.trace,
            iterations=self.at.iteration,
            evaluations=int(state.evaluations) + self.confirming,
            seconds=seconds,
            layout=objective.layout,
            metrics=metrics,
            compared=objective.compared_metrics,
            solution=solution,
            solution_layout=objective.solution_layout,
            notes=self._notes(state),
            citation=citation(specs_of(objective, preconditioner_of(self.solver), self.solver)),
            saved=saved,
            stages_left=self._last_stage - self.at.stage if self._more_stages() else 0,
        )

    def _metrics(self, state: SolverState, status: Status) -> Mapping[str, Any]:
        # They may take longer than a signal leaves.
        if not self.measure or status is Status.INTERRUPTED:
            return {}
        try:
            return self.objective.metrics(state.x)
        except NumericalError:
            if status.failed:  # the failure is what the user is to hear of
                return {}
            raise

    def _notes(self, state: SolverState) -> tuple[str, ...]:
        """Notes of all parts, each sentence once."""
        noted = [self.objective.notes, self.solver.notes(state)]
        if self.preconditioner is not None:
            noted.insert(1, self.preconditioner.notes)
        if self._more_stages():
            assert self.homotopy is not None
            name, values = cast(Homotopy, self.objective).homotopy_name, self.homotopy.values
            note = (
                f"the run ended at {name} = {values[self.at.stage]:g}, in stage "
                f"{self.at.stage + 1} of {len(values)}: its objective is that of this {name}, "
                f"not of {values[-1]:g}"
            )
            noted.append((note,))
        if self.at.cut:
            noted.append(
                ("the stages before the last ended early, to leave it a share of the limit",)
            )
        if self.unsaved:
            noted.append((f"no checkpoint could be written {self.unsaved[0]}",))
        if len(self.unsaved) > 1:
            noted.append((f"nor {len(self.unsaved) - 1} times later, last {self.unsaved[-1]}",))
        return tuple(dict.fromkeys(sentence for notes in noted for sentence in notes))

    def _free(self) -> None:
        if self.state is not None:
            self.solver.close(self.state)
        if self.prepared and self.preconditioner is not None:
            self.preconditioner.close()


def _is_finite(state: SolverState) -> bool:
    """Whether value and gradient are; a norm that is not known does not count."""
    unknown = state.gradient is None and math.isnan(state.gradient_norm)
    return math.isfinite(state.value) and (unknown or math.isfinite(state.gradient_norm))
