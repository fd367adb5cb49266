"""Numba kernels, compiled once for a machine and not once per rank and run.

The compiled code is kept in a cache folder.  The first process that needs a
kernel compiles it under a lock; the others wait for it and load the result.
Later runs find a mark that says so, and load without waiting for each other.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import filelock
import numpy as np

#: Seconds to wait for another process that compiles the same kernel, before compiling it too.
TIMEOUT = 300.0

#: NumPy's numbers of types of objects, strings and records, which say nothing of what is in them.
_STRUCTURED = np.dtype(object).num


def cache_folder() -> Path:
    """Folder of the compiled kernels, created if need be.

    ``THALWEG_CACHE`` if set, else ``XDG_CACHE_HOME/thalweg`` or ``~/.cache/thalweg``.
    Where files cannot be written there (read-only, over quota): a folder of this
    user's under the system's temporary one.
    """
    return _usable_folder(wished_cache_folder())


def wished_cache_folder() -> Path:
    """The folder that :func:`cache_folder` takes if it can be written."""
    chosen = os.environ.get("THALWEG_CACHE")
    if chosen:
        return Path(chosen).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "thalweg"


@functools.cache
def _usable_folder(wished: Path) -> Path:
    if wished.is_absolute() and _is_writable(wished):
        return wished
    # A stranger could have made this one first, and code is loaded from it.
    shared = Path(tempfile.gettempdir()) / f"thalweg-{os.getuid()}"
    if _is_writable(shared):
        found = shared.lstat()
        if found.st_uid == os.getuid() and not found.st_mode & 0o022:
            return shared
    return Path(tempfile.mkdtemp(prefix="thalweg-"))


def _is_writable(folder: Path) -> bool:
    # Permission bits say nothing of quotas, full discs and root on a network's file system.
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"thalweg")
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _numba_caches_in(folder: Path) -> Iterator[None]:
    # Numba looks at this when a function is decorated; other packages keep their own place.
    from numba import config

    before = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]


class Kernel:
    """A function compiled by Numba at its first call with given argument types.

    Notes
    -----
    Numba compiles again when the kernel's own file changes, not when a function
    that it calls changes in another file: keep what a kernel calls beside it.
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        import numba

        functools.update_wrapper(self, function)
        self._typeof = numba.typeof
        self._folder = cache_folder() / "kernels"
        with _numba_caches_in(self._folder):
            self.dispatcher = numba.njit(cache=True, nogil=True, **options)(function)
        self._identity = _identity(function, options)
        file = inspect.getfile(function)
        digest = hashlib.sha256(file.encode()).hexdigest()[:16]
        self.lock = self._folder / f"{Path(file).stem}-{digest}.lock"
        # With NUMBA_DISABLE_JIT the function stays plain Python: there is nothing to compile.
        self._compiles = hasattr(self.dispatcher, "compile")
        self._compiled: set[tuple[Any, ...]] = set()

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel, compiling it first if these types are new."""
        if self._compiles:
            kinds = tuple(map(_kind, arguments))
            if kinds not in self._compiled:
                self._compile(tuple(map(self._typeof, arguments)))
                self._compiled.add(kinds)
        return self.dispatcher(*arguments)

    def _compile(self, types: tuple[Any, ...]) -> None:
        key = hashlib.sha256("\n".join([self._identity, *map(str, types)]).encode()).hexdigest()
        mark = self._folder / f"{key[:24]}.compiled"
        if mark.exists():
            self._load_or_compile(types)
        else:
            # One lock for the kernels of a file: compiling one writes the cache of those that it
            # calls too, and Numba's files are not safe against two writers.
            with _alone(self.lock):
                self._load_or_compile(types)
            with contextlib.suppress(OSError):
                mark.touch()

    def _load_or_compile(self, types: tuple[Any, ...]) -> None:
        try:
            self.dispatcher.compile(types)
        except ModuleNotFoundError:
            # The kernel calls a function that was cached from a script or notebook which is gone.
            self.dispatcher._cache.flush()
            self.dispatcher.compile(types)


def _kind(argument: Any) -> Any:
    """What decides on Numba's type of an argument, much quicker to find than the type itself."""
    if type(argument) is np.ndarray and argument.dtype.num < _STRUCTURED:
        return argument.dtype.num, argument.dtype.byteorder, argument.ndim, argument.flags.num
    if isinstance(argument, (int, float, complex, np.number, np.bool_)):
        return type(argument)
    from numba import typeof

    return typeof(argument)


def _identity(function: Callable[..., Any], options: dict[str, Any]) -> str:
    # What Numba's own cache tells apart: source, version and processor.
    import numba
    from llvmlite import binding

    source = Path(inspect.getfile(function))
    stamp = source.stat() if source.exists() else None
    parts = (
        source.resolve(),
        (stamp.st_mtime_ns, stamp.st_size) if stamp else "",
        function.__qualname__,
        sorted(options.items()),
        numba.__version__,
        sys.version_info[:2],
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
    )
    return repr(parts)


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    # A file system without locks, or a holder that hangs, costs a second compilation, no more.
    held = contextlib.ExitStack()
    with contextlib.suppress(OSError, NotImplementedError, filelock.Timeout):
        lock.parent.mkdir(parents=True, exist_ok=True)
        held.enter_context(filelock.FileLock(lock, timeout=TIMEOUT))
    with held:
        yield


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorator: compile with ``numba.njit`` and these options, cached and safe among ranks.

    Kernels call each other through :attr:`Kernel.dispatcher`, or plain
    ``numba.njit`` functions inlined into them.
    """
    return lambda function: Kernel(function, **options)
