"""A run as its checkpoints hold it: the state, the preconditioner, the counters and the trace."""

import logging
import time
from dataclasses import dataclass, field, replace
from typing import Any

from thalweg.driver.checkpoint import Checkpoints
from thalweg.driver.checkpoint_content import refusing_malformed, restored
from thalweg.driver.progress import Progress
from thalweg.errors import CheckpointError, StorageError
from thalweg.interfaces import Objective, Solver, SolverState
from thalweg.parallel import on_root, phase, values_of_all_ranks
from thalweg.result import Trace

#: Relative change of the value at a restored point that other ranks or machines may cause.
RESTORED_ERROR = 1e-5


@dataclass
class SavedRun:
    """A run as its checkpoints hold it: without any where ``checkpoints`` is None.

    Counters and the seconds of each phase are restored in place, the trace is another once it is;
    ``failures`` say why checkpoints could not be written.
    """

    objective: Objective
    solver: Solver[Any]
    checkpoints: Checkpoints | None
    at: Progress
    seconds: dict[str, float]
    trace: Trace
    failures: list[str] = field(default_factory=list)
    last: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.preconditioner = inner = self.solver.preconditioner
        named = {"solver": self.solver, "preconditioner": inner}
        self.parts = {r: None if p is None else type(p).__qualname__ for r, p in named.items()}

    @property
    def is_due(self) -> bool:
        """Whether the time for the next checkpoint has come."""
        kept = self.checkpoints
        return kept is not None and time.perf_counter() - self.last >= kept.interval

    def read(self) -> dict[str, Any] | None:
        """The newest checkpoint from which this run can go on, None where there is none."""
        content = None if self.checkpoints is None else self.checkpoints.read(self.objective)
        before = (content or {}).get("parts", {})
        for part, name in self.parts.items():
            # Fields of another solver's state may have the same names.
            if before.get(part, name) != name:
                raise CheckpointError(
                    f"the checkpoint belongs to another run: its {part} was {before[part]} and is "
                    f"now {name}"
                )
        return content

    def restore(self, state: SolverState, content: dict[str, Any]) -> SolverState:
        """Restore all of a run, and return its state.  Collective.

        A ``CheckpointError`` where the objective has another value at its point.
        """
        with refusing_malformed():
            state = restored(state, content["state"])
            if self.preconditioner is not None:
                own = self.preconditioner.state()
                self.preconditioner.restore(restored(own, content["preconditioner"]))
            kinds = {name: type(value) for name, value in vars(self.at).items()}
            numbers = {key: kinds[key](value) for key, value in content["progress"].items()}
            vars(self.at).update(vars(Progress(**numbers)))
            self.trace = Trace.from_array(self.trace.columns, content["trace"])
            self.seconds.update({key: float(content["seconds"][key]) for key in self.seconds})
            list(map(float, (state.value, *self.at.values)))
            if state.x.shape != self.objective.layout.shape:
                raise ValueError(f"an iterate of shape {state.x.shape}")
        self._refuse_other_value(state)
        return state

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

    @phase("checkpoint")
    def write(self, state: SolverState, elapsed: float) -> bool:
        """Write a checkpoint, if there are any; False if none was written.  Collective.

        A disk that is full ends no run: what was written stays, and at the next interval there
        may be room again.
        """
        if self.checkpoints is None:
            return False
        began, failures = time.perf_counter(), len(self.failures)
        content = {
            "parts": self.parts,
            "state": state,
            "preconditioner": self.preconditioner.state() if self.preconditioner else {},
            "progress": vars(replace(self.at, elapsed=elapsed)),
            "seconds": self.seconds,
            "trace": on_root(self.objective.comm, self.trace.to_array),
        }
        try:
            self.checkpoints.write(self.objective, self.at.iteration, content)
        except StorageError as error:
            self.failures.append(f"at iteration {self.at.iteration}: {error}")
            if self.objective.comm.rank == 0:
                text = "the run continues without a checkpoint %s"
                logging.getLogger("thalweg").warning(text, self.failures[-1])
        self.last = time.perf_counter()
        self.seconds["checkpoint"] += self.last - began
        return len(self.failures) == failures

    def notes(self) -> list[str]:
        """Sentences on checkpoints that could not be written."""
        notes = [f"no checkpoint could be written {text}" for text in self.failures[:1]]
        if len(self.failures) > 1:
            notes.append(f"nor {len(self.failures) - 1} times later, last {self.failures[-1]}")
        return notes
