"""Every error that thalweg raises on purpose, with the exit code it maps to.

An error's text is one sentence that a user can act on.  Anything else that
escapes is a defect, shown with its traceback and the number of its rank.
"""

import difflib
import re
from collections.abc import Iterable
from typing import Any

__all__ = [
    "CapabilityError", "CheckpointError", "InputError", "NumericalError", "PluginError",
    "StorageError", "ThalwegError", "printable", "refuse_masked", "suggestion",
]  # fmt: skip


class ThalwegError(Exception):
    """Base of the errors raised on purpose; ``exit_code`` is the process's."""

    exit_code = 3


class InputError(ThalwegError, ValueError):
    """The user's data, option or file cannot be used; the text says what to change."""

    exit_code = 2


class CapabilityError(InputError):
    """An objective lacks something that a preconditioner or solver needs."""


class PluginError(InputError):
    """A plugin cannot be loaded, or two plugins collide."""


class CheckpointError(InputError):
    """A checkpoint is damaged, or belongs to another run."""


class StorageError(InputError):
    """A file cannot be written: the disk is full, or permission is lacking."""


class NumericalError(ThalwegError, ArithmeticError):
    """The computation produced a value from which it cannot continue."""


class RankError(ThalwegError):
    """Another rank failed; its number and its error are in the text."""

    exit_code = 1


def refuse_masked(values: Any, what: str) -> None:
    """Refuse masked entries, below which most functions of NumPy read; ``what`` is a plural."""
    import numpy as np

    if np.ma.is_masked(values):
        raise InputError(f"{what} have masked entries; fill these in or leave such rows out")


def reason(error: BaseException) -> str:
    """What went wrong, on one line: the text of thalweg's own errors, others with their type."""
    text = str(error) if isinstance(error, ThalwegError) else f"{type(error).__name__}: {error}"
    return printable(" ".join(text.split()))


#: Control characters but tabs, ends of lines, and surrogates, which no encoding has.
_CONTROL = re.compile("[\x00-\x08\n-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def printable(text: str) -> str:
    """Text of the user's or of a plugin, on one line that cannot steer a terminal."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def with_article(noun: str) -> str:
    """A noun after "a" or "an"."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Phrase that names the nearest known names, or lists all: ``"; did you mean 'spectral'?"``."""
    candidates = sorted(set(known))
    near = difflib.get_close_matches(name, candidates, n=3, cutoff=0.5)
    if near:
        return "; did you mean " + " or ".join(repr(n) for n in near) + "?"
    return "; known: " + ", ".join(candidates) if candidates else ""
