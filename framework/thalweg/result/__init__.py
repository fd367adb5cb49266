"""Status, trace and result of a run."""

from thalweg.result.outcome import Result
from thalweg.result.status import Status
from thalweg.result.trace import Trace

__all__ = ["Result", "Status", "Trace"]
