"""A watchdog: ends a run that has stopped moving, and shows where each rank stands."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time

from mpi4py import MPI

#: Seconds that the other ranks are given to show where they stand.
_GRACE = 1.0

#: Seconds more, after which Python's lock is taken to be kept.
_LOCKED = 5.0


class Watchdog:
    """Context that ends all ranks if nobody calls :meth:`beat` for some time.

    A thread on each rank writes the rank's number and the stacks of its threads to
    stderr, and then ends the process with code 1, upon which the launcher ends the others.

    Parameters
    ----------
    comm
        For the rank's number.
    seconds
        Longest time between two beats; 0 switches the watchdog off.
    """

    def __init__(self, comm: MPI.Comm, seconds: float) -> None:
        self._name = f"rank {comm.rank} of {comm.size}"
        self.seconds = seconds
        self._last = time.monotonic()
        self._ended = threading.Event()
        self._outer: Watchdog | None = None

    def beat(self) -> None:
        """Say that the run moves."""
        self._last = time.monotonic()

    def __enter__(self) -> Watchdog:
        global _current
        self._outer, _current = _current, self
        if self.seconds > 0:
            self.beat()
            threading.Thread(target=self._watch, name="thalweg watchdog", daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        global _current
        _current = self._outer
        self._ended.set()

    def _watch(self) -> None:
        while True:
            # A library that keeps Python's lock stops this thread too: hence a second, outside.
            faulthandler.dump_traceback_later(self.seconds + _LOCKED, exit=True)
            if self._ended.wait(min(0.25, self.seconds / 4)):
                faulthandler.cancel_dump_traceback_later()
                return
            if time.monotonic() - self._last > self.seconds:
                break
        try:
            sys.stderr.write(
                f"thalweg: {self._name}: nothing moved for {self.seconds:g} s "
                "([run] watchdog); its threads are here:\n"
            )
            faulthandler.dump_traceback(file=sys.__stderr__ or 2, all_threads=True)
            sys.stderr.flush()
            time.sleep(_GRACE)
        finally:  # the standard error may be closed
            os._exit(1)


_current: Watchdog | None = None


def beat() -> None:
    """Tell the watchdog, if there is one, that the run moves."""
    if _current is not None:
        _current.beat()
