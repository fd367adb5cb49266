"""Signals that ask a run to stop cleanly."""

import os
import signal
import threading
from types import FrameType
from typing import Any, Self

#: Signals of batch systems before they take a node away, and of Ctrl-C.
STOPPING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class SignalWatch:
    """Context in which a stopping signal sets a flag instead of ending the process.

    The number of the signal is in :attr:`received`.  It is deferred, not discarded: unless it is
    marked as :attr:`answered`, having had its effect, the end of the context passes it on, to the
    watch outside this one or else to the handlers from before.  A second Ctrl-C interrupts at
    once.  Outside the main thread, where Python allows no handlers, there is never a signal.  A
    watch inside another one begins with that one's signal; where that one ``defers``, it never has
    one, since what is inside is a part of a step, and goes to its end.
    """

    def __init__(self, defers: bool = False) -> None:
        self.received: int | None = None
        self._defers, self.answered = defers, False
        self._outer: SignalWatch | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            outer = getattr(signal.getsignal(STOPPING[0]), "__self__", None)
            if isinstance(outer, SignalWatch):
                if outer._defers:
                    return self
                self._outer, self.received = outer, outer.received
            self._previous = {number: signal.signal(number, self._note) for number in STOPPING}
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        previous, self._previous = self._previous, {}
        for number, handler in previous.items():
            signal.signal(number, handler)
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        if self.received is None or self.answered or interrupted:
            return
        if self._outer is not None:
            self._outer.received = self.received
        elif previous.get(self.received, signal.default_int_handler) is signal.default_int_handler:
            raise KeyboardInterrupt
        else:
            os.kill(os.getpid(), self.received)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.received == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number
