"""The ways in which a run can stand or end.

A status is an enum member whose value is the message a person reads, so that
no program ever has to parse English.
"""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """State of a run; ``.name`` is for programs, ``.value`` for people."""

    RUNNING = "the run is under way"
    GRADIENT = "converged: the gradient norm fell below the tolerance"
    DECREASE = "converged: the relative decrease fell below the tolerance"
    CONVERGED = "converged: the solver's own criterion is met"
    STALLED = "converged: no step lowers the objective any further in floating point"
    ITERATIONS = "stopped: the budget of iterations is used up"
    EVALUATIONS = "stopped: the budget of evaluations is used up"
    SECONDS = "stopped: the budget of wall time is used up"
    CALLBACK = "stopped: a callback asked for it"
    UNREACHED = "stopped: the wanted quality was not reached; this is the best found"
    INTERRUPTED = "stopped by a signal"
    DIVERGED = "failed: the objective is not finite or unbounded below"
    FAILED = "failed: the solver could not take a step"

    @property
    def running(self) -> bool:
        """Whether the run goes on."""
        return self is Status.RUNNING

    @property
    def converged(self) -> bool:
        """Whether a convergence criterion was met."""
        return self in {Status.GRADIENT, Status.DECREASE, Status.CONVERGED, Status.STALLED}

    @property
    def failed(self) -> bool:
        """Whether the run ended in a numerical failure."""
        return self in {Status.DIVERGED, Status.FAILED}

    @property
    def exit_code(self) -> int:
        """Exit code of the command line for a run that ends so: 0, 3 or 75."""
        if self.failed:
            return 3
        return 75 if self is Status.INTERRUPTED else 0
