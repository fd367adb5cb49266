"""What a run leaves behind: its status, its trace and its result."""

from thalweg.result.outcome import Result
from thalweg.result.status import Status
from thalweg.result.trace import Trace

__all__ = ["Result", "Status", "Trace"]
