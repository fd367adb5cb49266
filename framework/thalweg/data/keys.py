"""The choice of one array out of a file that holds several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from thalweg.errors import InputError, suggestion


def choose_key(found: Sequence[str], wanted: str | None, path: Path) -> str:
    """``wanted``, or the only key there is.

    Raises
    ------
    InputError
        No such key (the nearest are named), or several and none chosen.
    """
    if wanted is not None:
        if wanted not in found:
            raise InputError(f"'{path}' has no array '{wanted}'{suggestion(wanted, found)}")
        return wanted
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"'{path}' holds no array")
    listed = ", ".join(sorted(found))
    raise InputError(f"'{path}' holds several arrays; choose one by 'key': {listed}")
