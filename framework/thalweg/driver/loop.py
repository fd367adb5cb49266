"""The one loop: set up, initialize, step until a rule says stop, and report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from thalweg.driver.checkpoint import Checkpoints, SavedRun
from thalweg.driver.checkpoint_content import refusing_malformed
from thalweg.driver.evaluations import checked_evaluations, read_only
from thalweg.driver.homotopy import HomotopySchedule, Stages
from thalweg.driver.progress import Callback, Iterate, Progress, ProgressBar
from thalweg.driver.signals import SignalWatch
from thalweg.driver.stopping import STATUSES, Stop, confirmed
from thalweg.errors import NumericalError
from thalweg.interfaces import Objective, Solver, SolverState, require
from thalweg.parallel import Array, phase, values_of_all_ranks
from thalweg.parallel.failures import collective_cleanup
from thalweg.parallel.threads import threads_for
from thalweg.parallel.traffic import run_clock
from thalweg.plugins import citation, specs_of
from thalweg.result import Result, Status, Trace

#: Trace columns that every run has; those of its stages and the solver's own follow.
COLUMNS = ("iteration", "evaluations", "seconds", "objective", "gradient_norm", "step_length")

#: Ends of a run whose last steps lowered the objective by little or nothing.
WITHOUT_DESCENT = (Status.SMALL_DECREASE, Status.PRECISION_LIMIT, Status.NOISE_LIMIT)


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
        Show how the run goes on: a bar on rank 0's terminal, or lines in its log.
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


@dataclass
class _Run:
    """One call of :func:`drive`."""

    objective: Objective
    solver: Solver[Any]
    stop: Stop
    callbacks: Sequence[Callback]
    homotopy: HomotopySchedule | None
    checkpoints: Checkpoints | None
    measure: bool

    def __post_init__(self) -> None:
        objective, solver = self.objective, self.solver
        self.preconditioner = solver.preconditioner
        for part, role in ((solver, "solver"), (self.preconditioner, "preconditioner")):
            if part is not None:
                require(objective, part.requires, f"{role} {type(part).__name__}")
        self.at = Progress()
        self.stages = Stages(objective, solver, self.homotopy, self.stop, self.at)
        self.seconds = {"setup": 0.0, "optimize": 0.0, "checkpoint": 0.0}
        trace = Trace((*COLUMNS, *self.stages.columns, *solver.trace_columns))
        self.saved = SavedRun(objective, solver, self.checkpoints, self.at, self.seconds, trace)
        # Notes before the run; what it adds is told of it alone.
        self.noted = list(vars(objective).get("_notes", ()))
        self.state: Any = None  # the solver's, from its init on
        self.prepared = False  # whether the preconditioner is set up
        self.last_good: Any = None  # the state at the last finite iterate
        self.confirming = 0  # evaluations that confirmed how the run ended

    def run(self, x: Array, resume: bool, progress: bool) -> Result:
        self.began = run_clock()
        with SignalWatch(defers=True) as self.signals:
            old = self.saved.read() if resume else None
            comm = self.objective.comm
            # A signal before the run may have cut short what made its starting point.
            early = int(values_of_all_ranks(comm, float(self.signals.received or 0)).max())
            self.signals.received = early or None
            checks = checked_evaluations(self.objective, self.preconditioner)
            with collective_cleanup(comm, self._free), checks as self.evaluations:
                self._start(x, old)
                shown = self.solver.shown_columns
                bar = ProgressBar(comm, self.stop, progress, self.stages.last + 1, shown)
                try:
                    status = Status.INTERRUPTED
                    if not early:
                        status = self._status(self.state) if self._follow() else Status.DIVERGED
                    while status.running:
                        finite = self._advance(bar) and self._follow()
                        status = self._status(self.state) if finite else Status.DIVERGED
                    # A lower value was near, and it was minus infinity.
                    seen = self.evaluations
                    if seen.is_late(seen.unbounded_at) and status in WITHOUT_DESCENT:
                        status = Status.DIVERGED
                    known = self.state, status, self.at.values, seen.is_late(seen.lost_at)
                    status, more = confirmed(self.objective, *known)
                    self.confirming += more
                finally:
                    bar.close()
                # A run that reached its limit may be given a larger one.
                saved = not (status.failed or early) and self.saved.write(
                    self.state, self._elapsed()
                )
                # Without checkpoints, the one who sent the signal must not be ignored.
                interrupted = status is Status.INTERRUPTED
                self.signals.answered = interrupted and self.checkpoints is not None
                return self._result(self.state, status, saved)

    @phase("setup")
    def _start(self, x: Array, saved: dict[str, Any] | None) -> None:
        began = run_clock()
        # What the preconditioner takes from the first stage, it takes from it in all runs.
        self.stages.enter(0)
        if self.preconditioner is not None:
            self.preconditioner.loose = self.solver.corrects_preconditioner
            self.preconditioner.setup(self.objective, x)
            self.prepared = True
        if saved is None:
            self.stages.shorten()
        else:
            with refusing_malformed():
                self.stages.enter(float(saved["progress"]["stage"]))
        self.state = state = cast(SolverState, self.solver.init(self.objective, x))
        if saved is not None:
            self.state = state = self.saved.restore(state, saved)
        elif not math.isfinite(state.value):
            raise NumericalError(f"the objective is {state.value} at the starting point")
        elif not state.is_finite:
            raise NumericalError("the gradient is not finite at the starting point")
        else:
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
        self.at.note_value(state, self.solver.stochastic, max(r.window for r in self.stages.rules))
        bar.show(self._record(state))
        return True

    def _with_gradient_norm(self, state: SolverState) -> SolverState:
        """The state with what the rule on the gradient asks for, where the solver has none."""
        asked = any(rule.gradient is not None for rule in self.stages.rules)
        if not (asked and self.solver.derivative_free):
            return state
        norm = self.objective.layout.norm(self.objective.value_and_gradient(state.x)[1])
        return replace(state, gradient_norm=norm, evaluations=state.evaluations + 1)

    def _keep_finite(self) -> bool:
        """Whether the iterate is finite; the last one that was is put back in place of another."""
        state, good = self.state, self.last_good
        if not (finite := bool(values_of_all_ranks(self.objective.comm, state.is_finite)[0])):
            names = ("x", "value", "gradient", "gradient_norm")
            self.state = state = replace(state, **{name: getattr(good, name) for name in names})
        self.last_good = state
        return finite

    def _follow(self) -> bool:
        """Go on to the next stage where one has ended, to the last where a budget demands it.

        Collective.  False if the objective is not finite there, and the iterate before is back.
        """
        while stage := self.stages.following(self.state, self._used(self._elapsed())):
            self.state = self.stages.entered(self.state, stage)
            if not self._keep_finite():
                return False
        return True

    def _used(self, elapsed: float) -> list[Any]:
        """How much of each budget is used."""
        return [self.at.iteration, self.state.evaluations, elapsed, self.at.epoch]

    def _status(self, state: SolverState) -> Status:
        """Status of the run, the same on all ranks, by rank 0's clock and any rank's signal."""
        counts = (self.at.iteration, state.evaluations, self._elapsed())
        iterate = Iterate(*counts, state.value, state.gradient_norm, read_only(state.x), state)
        stop_requested = True in [bool(callback(iterate)) for callback in self.callbacks]
        status = self.stages.status(state)
        if self.stages.left and not status.failed:
            status = Status.RUNNING  # what ends a stage leads to the next
        facts = (
            self.signals.received or 0, stop_requested, self._elapsed(), self.saved.is_due,
            STATUSES.index(status),
        )  # fmt: skip
        every = values_of_all_ranks(self.objective.comm, np.array(facts, dtype=float))
        signals, stops, *known = every.T
        # Rank 0's word: on a mixed cluster, norms may differ in their last bits.
        elapsed, due, status = known[0][0], bool(known[1][0]), STATUSES[int(known[2][0])]
        if status.running:
            budget = self.stop.budget(*self._used(elapsed))
            if stops.any():
                status = Status.CALLBACK
            elif not budget.running:
                status = budget
            elif signals.any():
                status = Status.INTERRUPTED
                self.signals.received = int(signals[signals > 0][0])  # all ranks end in one way
        if due and status.running:
            self.saved.write(self.state, self._elapsed())
        return status

    def _elapsed(self) -> float:
        return self.at.elapsed + run_clock() - self.began

    def _record(self, state: SolverState) -> dict[str, float]:
        counts = (self.at.iteration, state.evaluations, self._elapsed())
        measures = (state.value, state.gradient_norm, state.step_length)
        row: dict[str, float] = dict(zip(COLUMNS, (*counts, *measures), strict=True))
        row |= {**self.stages.row(state), **self.solver.trace_row(state)}
        self.saved.trace.append(row)
        return row

    @phase("measure")
    def _result(self, state: SolverState, status: Status, saved: bool) -> Result:
        objective, began = self.objective, run_clock()
        value = float(state.value)
        if self.solver.stochastic:  # also where it failed: metrics are of all rows too
            value = float(self.solver.whole_value(state))
            self.confirming += 1
        metrics = dict(self._metrics(state, status))
        solution = np.array(objective.solution(state.x))
        own = () if self.preconditioner is None else self.preconditioner.notes
        late = (*self.solver.notes(state), *self.stages.notes(), *self.saved.notes())
        return Result(
            x=np.array(state.x),
            objective=value,
            status=status,
            trace=self.saved.trace,
            iterations=self.at.iteration,
            evaluations=int(state.evaluations) + self.confirming,
            seconds={**self.seconds, "measure": run_clock() - began, "total": self._elapsed()},
            layout=objective.layout,
            metrics=metrics,
            compared=objective.compared_metrics,
            solution=solution,
            solution_layout=objective.solution_layout,
            notes=tuple(dict.fromkeys((*objective.notes, *own, *late))),
            citation=citation(specs_of(objective, self.preconditioner, self.solver)),
            saved=saved,
            stages_left=self.stages.left,
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

    def _free(self) -> None:
        self.stages.leave()
        vars(self.objective)["_notes"] = self.noted
        if self.state is not None:
            self.solver.close(self.state)
        if self.prepared and self.preconditioner is not None:
            self.preconditioner.close()
