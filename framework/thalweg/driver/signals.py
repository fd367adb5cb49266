"""Signals that ask a run to stop cleanly."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

#: What batch systems send before they take a node away, and Ctrl-C.
STOPPING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class SignalWatch:
    """Context in which a stopping signal sets a flag instead of ending the process.

    A second Ctrl-C interrupts at once.  Outside the main thread, where Python
    allows no handlers, the flag just stays down.  A watch inside another one
    begins with the signal that the outer one has received.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> SignalWatch:
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                previous = signal.signal(number, self._note)
                self._previous[number] = previous
                outer = getattr(previous, "__self__", None)
                if isinstance(outer, SignalWatch) and outer.received is not None:
                    self.received = outer.received
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.received == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number


def watch_from_now_on() -> None:
    """Keep a watch until the process ends, for commands.

    A signal during set-up then stops the run at its first iteration, and one that
    comes again while results are written does no harm.
    """
    SignalWatch().__enter__()
