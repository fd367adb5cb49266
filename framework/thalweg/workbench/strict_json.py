"""JSON that any reader accepts."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def as_json(content: Mapping[str, Any], indent: int | None = 2) -> str:
    """The text, in which what is not finite is null; raises what JSON cannot hold."""
    return json.dumps(_plain(content), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.longdouble):  # whose tolist() is itself
        value = float(value)
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
