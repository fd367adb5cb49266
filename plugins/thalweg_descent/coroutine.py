"""An external loop that runs one call at a time.

TAO and SciPy own their loop and call us; the driver wants to call them, one
iterate at a time.  The loop runs in a greenlet, which hands over a request
wherever it calls us, and goes on when it is given the answer.
"""

import warnings
from collections.abc import Callable
from typing import Any

import greenlet


class Coroutine:
    """A function that can stop in the middle of any call it makes.

    Parameters
    ----------
    body
        Called with a function ``ask``: ``answer = ask(request)`` suspends it until
        the next :meth:`resume`.
    """

    def __init__(self, body: Callable[[Callable[[Any], Any]], Any]) -> None:
        self._greenlet = greenlet.greenlet(lambda _: body(self._ask))

    @property
    def has_ended(self) -> bool:
        """Whether the function has returned or raised."""
        return bool(self._greenlet.dead)

    def _ask(self, request: Any) -> Any:
        return self._greenlet.parent.switch(request)

    def resume(self, answer: Any = None) -> Any:
        """Go on with ``answer``; the next request, or at the end what the function returns.

        What the function raises, this raises.  Warnings of the external code are
        dropped: its outcome says all that there is to say.
        """
        self._greenlet.parent = greenlet.getcurrent()
        with warnings.catch_warnings(action="ignore"):
            return self._greenlet.switch(answer)

    def close(self) -> None:
        """End the function where it stands, by an exception that runs its clean-up."""
        if self._greenlet and not self._greenlet.dead:
            self._greenlet.parent = greenlet.getcurrent()
            with warnings.catch_warnings(action="ignore"):
                self._greenlet.throw(greenlet.GreenletExit)
