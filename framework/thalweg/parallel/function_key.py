"""A name for what a function does, under which compiled code is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np


def code_key(function: Callable[..., Any]) -> str:
    """A name for what a function does, the same in every process.

    It covers the code, what the function closes over, and the globals that it reads, other
    functions among them.
    """
    # Compiled code refers to the module that it was compiled in.
    text = f"{function.__module__} {_text(function)}"
    return hashlib.sha256(text.encode()).hexdigest()


def _text(thing: Any) -> str:
    if isinstance(thing, ModuleType):
        return thing.__name__
    if isinstance(thing, np.ndarray):
        return repr((thing.dtype.str, thing.shape, thing.tobytes()))
    # What Numba has compiled shows an address, and its function what it does.
    thing = getattr(thing, "py_func", thing)
    if isinstance(thing, CodeType):
        constants = [_text(constant) for constant in thing.co_consts]
        return repr((thing.co_code, constants, thing.co_names))
    if not isinstance(thing, FunctionType):
        # NumPy's functions show an address too.
        named = callable(thing) and hasattr(thing, "__qualname__")
        return f"{thing.__module__}.{thing.__qualname__}" if named else repr(thing)
    code = thing.__code__
    seen = [cell.cell_contents for cell in thing.__closure__ or ()]
    seen += [thing.__globals__[name] for name in code.co_names if name in thing.__globals__]
    seen += thing.__defaults__ or ()
    # Numba freezes constants when it compiles, those of modules too.
    for module in [entry for entry in seen if isinstance(entry, ModuleType)]:
        seen += [vars(module)[name] for name in code.co_names if name in vars(module)]
    known = [_text(entry) for entry in seen]
    return repr((_text(code), known))
