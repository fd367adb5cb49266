"""What is imported at first use: names of packages, and distributions that not everybody needs."""

import ast
import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from thalweg.errors import InputError

__all__ = ["extra", "lazy_names"]


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package that imports its names at first use.

    The names are those that it imports under ``if TYPE_CHECKING:``, which type checkers read.
    """

    @functools.cache
    def places() -> dict[str, str]:
        source = Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")
        return {
            alias.name: str(statement.module)
            for block in ast.parse(source).body
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for statement in block.body
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
        }

    def get(name: str) -> Any:
        if name.startswith("__") or name not in places():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(places()[name]), name)

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return get, names


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
