"""Numba kernels, compiled once for a machine and not once per rank and run.

The compiled code is kept in a cache folder, by the content of its source.  The first
process that needs a kernel compiles it under a lock; the others wait for it and load the
result.  Later runs find a mark that says so, and load without waiting for each other.  The
folder may be removed at any time.
"""

import contextlib
import functools
import hashlib
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import filelock
import numba
import numpy as np
from llvmlite import binding
from numba.core import caching

from thalweg.parallel.traffic import COMPILING

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
    return _usable_folder(preferred_cache_folder())


def preferred_cache_folder() -> Path:
    """The folder that :func:`cache_folder` takes if it can be written."""
    chosen = os.environ.get("THALWEG_CACHE")
    if chosen:
        return Path(chosen).absolute()
    # An empty HOME is the root folder to expanduser; a relative path is passed over.
    user = os.path.expanduser("~") if os.environ.get("HOME", "unset") else ""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.join(user, ".cache")) / "thalweg"


@functools.cache
def _usable_folder(preferred: Path) -> Path:
    if preferred.is_absolute() and _is_writable(preferred):
        return preferred
    # Another user could have created this one first, and code is loaded from it.
    shared = Path(tempfile.gettempdir()) / f"thalweg-{os.getuid()}"
    if _is_writable(shared):
        facts = shared.lstat()
        if facts.st_uid == os.getuid() and not facts.st_mode & 0o022:
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


def _in_forked_child() -> None:
    # GNU's OpenMP ends a child, or waits for ever, that uses threads as its parent has done.
    with contextlib.suppress(ValueError):  # no loop has run on threads
        if numba.threading_layer() == "omp":
            Kernel.serial, os.environ["THALWEG_THREADS"] = True, "1"


os.register_at_fork(after_in_child=_in_forked_child)


class Kernel:
    """A function compiled by Numba at its first call with given argument types.

    ``writes`` names the arrays that it writes to.  The others are passed as read-only, so that
    callers whose arrays may be written and those whose may not share the compiled code; by default
    arrays are passed as they come.  ``options`` are those of ``numba.njit``.

    Compiled code is found by what the source files say of the function and of those that it
    calls, wherever they lie and whenever they were written: copies of a package share it, and
    what has changed is compiled again.  Numba itself tells versions and processors apart.
    A process forked after loops ran on threads of OpenMP has kernels without.
    """

    #: Whether loops run without threads.
    serial = False

    def __init__(
        self, function: Callable[..., Any], writes: Collection[str] | None = None, **options: Any
    ) -> None:
        functools.update_wrapper(self, function)
        self._folder = cache_folder() / "kernels"
        self._options = options
        self.dispatcher = numba.njit(nogil=True, **options)(function)
        # With NUMBA_DISABLE_JIT the function stays plain Python: there is nothing to compile.
        self._compiles = hasattr(self.dispatcher, "compile")
        self._compiled: set[tuple[Any, ...]] = set()
        names = inspect.signature(function).parameters if writes is not None else ()
        self._reads = [place for place, name in enumerate(names) if name not in (writes or ())]

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel, compiling it first if these types are new."""
        if self.serial and self._options.get("parallel"):
            return self.alone(*arguments)
        if self._compiles:
            if self._reads:
                arguments = self._protected(arguments)
            kinds = tuple(map(_kind, arguments))
            if kinds not in self._compiled:
                with COMPILING:
                    self._compile(tuple(map(numba.typeof, arguments)))
                self._compiled.add(kinds)
        return self.dispatcher(*arguments)

    @functools.cached_property
    def alone(self) -> "Kernel":
        """The same without threads, whose start costs more than a short loop."""
        alone = Kernel(self.__wrapped__, **{**self._options, "parallel": False})  # type: ignore[attr-defined]
        alone._reads = self._reads
        alone._folder = self._folder / "serial"  # Numba's files do not tell the two apart
        return alone

    def _protected(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        passed = list(arguments)
        for place in self._reads:
            array = passed[place]
            if isinstance(array, np.ndarray) and array.flags.writeable:
                passed[place] = array = array.view()
                array.flags.writeable = False
        return tuple(passed)

    @functools.cached_property
    def _called(self) -> list[tuple[FunctionType, Any]]:
        return _called(self.__wrapped__)  # type: ignore[attr-defined]

    @functools.cached_property
    def _content(self) -> str:
        return _content(self._called)

    @property
    def locks(self) -> list[Path]:
        """Files that are locked, in this order, while the kernel is compiled.

        Compiling it may write the cache of the kernels that it calls too.
        """
        functions = {self.__wrapped__}  # type: ignore[attr-defined]
        cached = caching.FunctionCache
        functions |= {f for f, d in self._called if isinstance(getattr(d, "_cache", 0), cached)}
        return sorted(self._folder / f"{f.__module__}.{f.__qualname__}.lock" for f in functions)

    def _compile(self, types: tuple[Any, ...]) -> None:
        if not self._compiled:
            self._keep_in_cache()
        key = hashlib.sha256("\n".join([self._identity, *map(str, types)]).encode()).hexdigest()
        mark = self._folder / f"{key[:24]}.compiled"
        if mark.exists():
            self._load_or_compile(types)
        else:
            # Numba's files are not safe against two writers.
            with contextlib.ExitStack() as stack:
                for lock in self.locks:
                    stack.enter_context(_locked(lock))
                self._load_or_compile(types)
            with contextlib.suppress(OSError):
                mark.touch()

    def _keep_in_cache(self) -> None:
        content, folder = self._content, self._folder / self._content

        class Locator(caching._CacheLocator):  # type: ignore[misc, name-defined]
            def __init__(self, line: int, file: str) -> None:
                self._line, self._py_file = line, file

            def get_cache_path(self) -> str:
                return str(folder)

            def get_source_stamp(self) -> str:
                return content

            def get_disambiguator(self) -> str:
                return str(self._line)

            @classmethod
            def from_function(cls, function: Any, file: str) -> "Locator":
                locator = cls(function.__code__.co_firstlineno, file)
                locator.ensure_cache_path()
                return locator

        files = type("Files", (caching.CompileResultCacheImpl,), {"_locator_classes": (Locator,)})
        cache = type("Cache", (caching.FunctionCache,), {"_impl_class": files})
        # A disk that is full costs compilations, no more.
        with contextlib.suppress(OSError):
            self.dispatcher._cache = cache(self.dispatcher.py_func)

    @functools.cached_property
    def _identity(self) -> str:
        # What Numba's own cache tells apart: source, version and processor.
        parts = (
            self._content,
            self.__qualname__,  # type: ignore[attr-defined]
            sorted(self._options.items()),
            numba.__version__,
            sys.version_info[:2],
            binding.get_host_cpu_name(),
            binding.get_host_cpu_features().flatten(),
        )
        return repr(parts)

    def _load_or_compile(self, types: tuple[Any, ...]) -> None:
        # Numba keeps the errors of what it tries, with the frames that they passed through and
        # those of all callers, and so their arrays.  A thread of its own has no callers.
        with ThreadPoolExecutor(max_workers=1) as thread:
            thread.submit(self._compile_here, types).result()

    def _compile_here(self, types: tuple[Any, ...]) -> None:
        try:
            self.dispatcher.compile(types)
        except ModuleNotFoundError:
            # The kernel calls a function that was cached from a script or notebook which is gone.
            self.dispatcher._cache.flush()
            self.dispatcher.compile(types)


def _called(function: FunctionType) -> list[tuple[FunctionType, Any]]:
    """A kernel's function and those that it calls in its package, each with its dispatcher."""
    home = function.__module__.partition(".")[0]
    waiting: list[Any] = [function]
    seen: dict[FunctionType, Any] = {}
    while waiting:
        dispatcher = waiting.pop()
        dispatcher = getattr(dispatcher, "dispatcher", dispatcher)
        called = getattr(dispatcher, "py_func", dispatcher)
        if not isinstance(called, FunctionType) or called in seen:
            continue
        # Code from elsewhere is in a kernel's name, or belongs to a package with a version.
        if called.__module__.partition(".")[0] in (home, "thalweg"):
            seen[called] = dispatcher
            waiting += _read(called).values()
    return list(seen.items())


def _content(called: list[tuple[FunctionType, Any]]) -> str:
    """A name for what the source says of a kernel and of what it calls in its package.

    It is that of the kernel's file, with a digest of the files in which these functions are, and
    of the constants that they read: Numba puts both into the kernel.
    """
    texts: set[str] = set()
    for function, _ in called:
        # Code entered interactively has no file.
        texts.add(_file_digest(Path(function.__code__.co_filename)) or _text(function.__code__))
        for name, value in _read(function).items():
            if isinstance(value, (int, float, str, bytes, tuple)):
                texts.add(f"{function.__qualname__} {name} {value!r}")
    digest = hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()
    return f"{Path(called[0][0].__code__.co_filename).stem}-{digest[:24]}"


def _read(function: FunctionType) -> dict[str, Any]:
    """Values that a function reads by name: globals, and variables that it closes over."""
    code = function.__code__
    named = {n: function.__globals__[n] for n in _names(code) & set(function.__globals__)}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    return named | {name: cell.cell_contents for name, cell in cells}


def _text(code: CodeType) -> str:
    constants = [_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return repr((code.co_code, constants, code.co_names))


def _names(code: CodeType) -> set[str]:
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)


@functools.cache
def _file_digest(file: Path) -> str | None:
    with contextlib.suppress(OSError):
        return hashlib.sha256(file.read_bytes()).hexdigest()
    return None


def _kind(argument: Any) -> Any:
    """Key that determines Numba's type of an argument, quicker to find than the type itself."""
    if type(argument) is np.ndarray and argument.dtype.num < _STRUCTURED:
        return argument.dtype.num, argument.dtype.byteorder, argument.ndim, argument.flags.num
    if isinstance(argument, (int, float, complex, np.number, np.bool_)):
        return type(argument)
    return tuple(map(_kind, argument)) if type(argument) is tuple else numba.typeof(argument)


@contextlib.contextmanager
def _locked(lock: Path) -> Iterator[None]:
    # A file system without locks, or a holder that hangs, costs a second compilation, no more.
    stack = contextlib.ExitStack()
    with contextlib.suppress(OSError, NotImplementedError, filelock.Timeout):
        lock.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(filelock.FileLock(lock, timeout=TIMEOUT))
    with stack:
        yield


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorator: a :class:`Kernel` with these options, cached and safe among ranks.

    Kernels call each other through :attr:`Kernel.dispatcher`, or plain
    ``numba.njit`` functions inlined into them.
    """
    return lambda function: Kernel(function, **options)
