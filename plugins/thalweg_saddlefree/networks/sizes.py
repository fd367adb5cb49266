"""Layer sizes as users write them."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.errors import InputError


def checked_sizes(layers: Sequence[int]) -> None:
    """Refuse a list of layer sizes that makes no network.

    Raises
    ------
    InputError
    """
    whole = all(isinstance(size, int) and not isinstance(size, bool) for size in layers)
    if len(layers) < 2 or not whole or min(layers, default=0) < 1:
        raise InputError(
            f"layers must be at least two whole numbers of one or more, not {list(layers)!r}"
        )
