"""Distributions that not everybody needs, imported at first use."""

import importlib
from typing import Any

from thalweg.errors import InputError


def extra(module: str, name: str, purpose: str) -> Any:
    """The module, which the extra ``name`` of this distribution installs.

    Raises
    ------
    InputError
        It is not installed; the sentence says what for, and how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(
            f"{purpose} needs {package}, which is not installed: pip install 'thalweg[{name}]'"
        ) from error
