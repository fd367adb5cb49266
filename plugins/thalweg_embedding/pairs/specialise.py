"""One loop over pairs, compiled anew for each pair function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from thalweg.parallel import kernel
from thalweg_embedding.pairs.functions import FASTMATH, PairFunction


def specialise(template: Callable[..., Any], pair: PairFunction) -> Any:
    """Kernel made of ``template`` with its global name ``pair`` standing for a pair function.

    Numba finds compiled code in its cache by a function's file, line and qualified
    name, and does not look at globals; so the name says which pair function is meant.
    """
    return _specialise(template, pair)


@functools.cache
def _specialise(template: Any, pair: PairFunction) -> Any:
    globals_ = dict(template.__globals__, pair=pair.compiled)
    function = FunctionType(template.__code__, globals_, template.__name__)
    function.__qualname__ = f"{template.__qualname__}_{pair.key[:16]}"
    function.__module__ = template.__module__
    return kernel(parallel=True, fastmath=set(FASTMATH))(function)
