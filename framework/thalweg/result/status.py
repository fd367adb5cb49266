"""The ways in which a run can stand or end.

A status is an enum member whose value is the message a person reads, so that
no program ever has to parse English.
"""

from enum import Enum


class Status(Enum):
    """State of a run; ``.name`` is for programs, ``.value`` for people."""

    RUNNING = "the run is under way"
    SMALL_GRADIENT = "converged: the gradient norm is at most the tolerance"
    SMALL_DECREASE = (
        "converged: the objective fell by less than the tolerance in the last iterations"
    )
    CONVERGED = "converged: the solver's own criterion is met"
    PRECISION_LIMIT = "converged: no step lowers the objective any further in floating point"
    NOISE_LIMIT = "stopped: no step lowers the objective by more than the error of its values"
    ITERATION_LIMIT = "stopped: the limit of iterations is reached"
    EPOCH_LIMIT = "stopped: the limit of epochs is reached"
    EVALUATION_LIMIT = "stopped: the limit of evaluations is reached"
    TIME_LIMIT = "stopped: the limit of wall time is reached"
    CALLBACK = "stopped: a callback asked for it"
    TARGET_NOT_REACHED = "stopped: the requested quality was not reached; this is the best found"
    INTERRUPTED = "stopped by a signal"
    DIVERGED = (
        "failed: the objective or its gradient is not finite, or the objective is unbounded "
        "below; the last finite iterate is kept"
    )
    FAILED = "failed: the solver could not take a step"
    INCONSISTENT = (
        "failed: no step lowers the objective as its gradient predicts; value and gradient do not "
        "belong together, compare them by thalweg.testing.check_gradient"
    )

    @property
    def running(self) -> bool:
        """Whether the run continues."""
        return self is Status.RUNNING

    @property
    def converged(self) -> bool:
        """Whether a convergence criterion was met."""
        return self in {
            Status.SMALL_GRADIENT,
            Status.SMALL_DECREASE,
            Status.CONVERGED,
            Status.PRECISION_LIMIT,
        }

    @property
    def limited(self) -> bool:
        """Whether a budget ended the run."""
        return self in {
            Status.ITERATION_LIMIT,
            Status.EPOCH_LIMIT,
            Status.EVALUATION_LIMIT,
            Status.TIME_LIMIT,
        }

    @property
    def failed(self) -> bool:
        """Whether the run ended in a numerical failure."""
        return self in {Status.DIVERGED, Status.FAILED, Status.INCONSISTENT}

    @property
    def exit_code(self) -> int:
        """Exit code of the command line for a run that ends so: 0, 3 or 75."""
        if self.failed:
            return 3
        return 75 if self is Status.INTERRUPTED else 0
