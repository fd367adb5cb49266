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
    allows no handlers, the flag just stays down.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> SignalWatch:
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.received == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number
