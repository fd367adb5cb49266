"""Numba kernels, compiled once for a machine and not once per rank and run.

The compiled code is kept in a cache folder.  A lock file makes the first
process that needs a kernel compile it while the others wait, and then load it.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock


def cache_folder() -> Path:
    """Folder of the compiled kernels.

    ``THALWEG_CACHE`` if set, else ``XDG_CACHE_HOME/thalweg`` or ``~/.cache/thalweg``;
    a folder under the system's temporary one where those cannot be written.
    """
    chosen = os.environ.get("THALWEG_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(chosen) if chosen else Path(home) / "thalweg"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    folder = Path(tempfile.gettempdir()) / f"thalweg-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


class Kernel:
    """A function compiled by Numba at its first call with given argument types."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        import numba

        functools.update_wrapper(self, function)
        numba.config.CACHE_DIR = str(cache_folder() / "kernels")  # type: ignore[attr-defined]
        self._typeof = numba.typeof
        self.dispatcher = numba.njit(cache=True, nogil=True, **options)(function)
        self._compiled: set[tuple[Any, ...]] = set()

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel, compiling it first if these types are new."""
        types = tuple(self._typeof(argument) for argument in arguments)
        if types not in self._compiled:
            self._compile(types)
        return self.dispatcher(*arguments)

    def _compile(self, types: tuple[Any, ...]) -> None:
        # One lock for all kernels: Numba's index of a file is shared by its functions.
        with filelock.FileLock(cache_folder() / "kernels.lock"):
            self.dispatcher.compile(types)
        self._compiled.add(types)


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorator: compile with ``numba.njit`` and these options, cached and safe among ranks.

    Kernels call each other through :attr:`Kernel.dispatcher`, or plain
    ``numba.njit`` functions inlined into them.
    """
    return lambda function: Kernel(function, **options)
