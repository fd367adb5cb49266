"""A watchdog: ends a run that has stopped moving, and shows where each rank stands."""

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_seconds = 0.0


@contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """End this rank, and by it the job, where nobody calls :func:`beat` for so many seconds.

    The stacks of its threads go to stderr, and the process ends with code 1, upon which the
    launcher ends the others, before or after they tell where they stand; also where a library
    keeps Python's lock.  0 switches it off.
    """
    global _seconds
    outer, _seconds = _seconds, seconds
    try:
        beat()
        yield
    finally:
        _seconds = outer
        faulthandler.cancel_dump_traceback_later()
        beat()


def beat() -> None:
    """Tell the watchdog, if there is one, that the run moves."""
    if _seconds > 0:
        faulthandler.dump_traceback_later(_seconds, exit=True, file=sys.__stderr__ or 2)
