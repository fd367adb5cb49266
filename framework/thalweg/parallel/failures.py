"""Failures of single ranks: all ranks raise an error, or the job ends.  None hangs.

A rank that raises leaves the others in collective calls that it will never join.  Three
tools turn that into one outcome for all:

- :func:`raise_on_all_ranks` and :func:`on_root` surround work without communication: all
  ranks meet at the end of the block, and raise the error of the lowest rank that failed.
- :func:`abort_on_error` and :func:`collective_cleanup` surround work that communicates.
  A rank that reaches the end of the block, by whatever way, waits there for the others,
  on a communicator of its own, so that its messages match none of the block's.  If all
  come, they leave together, all with an error or none.  If a rank failed and the others do
  not come within :data:`TIMEOUT` seconds, they wait for it somewhere inside the block: it
  writes its number and its error to stderr, and ends the job.
"""

import functools
import operator
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from mpi4py import MPI

import thalweg.errors
from thalweg.errors import InputError, RankError, ThalwegError, printable
from thalweg.parallel.reductions import any_over_ranks

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

#: Seconds that a failing rank waits for the others to come to the end of the block; chosen by hand.
TIMEOUT = 3.0

#: Errors that are rebuilt from their text on other ranks, by name.  A plugin's own stand for the
#: nearest of thalweg's.  ``OSError`` is rebuilt from its arguments.
_REBUILT: dict[str, Callable[..., BaseException]] = {
    kind.__name__: kind
    for kind in (*vars(thalweg.errors).values(), MemoryError, KeyboardInterrupt)
    if isinstance(kind, type) and issubclass(kind, ThalwegError | MemoryError | KeyboardInterrupt)
}


# -- work without communication ----------------------------------------------------------------


@contextmanager
def raise_on_all_ranks(comm: MPI.Comm) -> Iterator[None]:
    """Turn an error on any rank into an error on all.  Collective.

    The block must not communicate, since a rank may leave it early; use it around work
    such as reading a file, which can fail on one rank alone.

    Raises
    ------
    BaseException
        The error of the lowest rank that failed.  On the other ranks it has the same type
        if it is thalweg's own, an ``OSError``, ``MemoryError`` or ``KeyboardInterrupt``;
        any other becomes a :class:`~thalweg.errors.RankError`.
    """
    error: BaseException | None = None
    try:
        yield
    except BaseException as caught:
        error = caught
    # What went wrong travels as Python objects, which are slow, only where something did.
    if any_over_ranks(comm, error is not None):
        _raise_lowest(comm, error, comm.allgather(_description(comm.rank, error)))


def refuse_differing(comm: MPI.Comm, what: str, *values: Any) -> None:
    """Refuse arguments that are not the same on all ranks, by their ``repr`` or bytes.  Collective.

    Parameters
    ----------
    what
        Plural, for the error's text.

    Raises
    ------
    InputError
        On all ranks.
    """
    texts = [
        (v.dtype, v.shape, sha256(v.tobytes()).hexdigest()) if isinstance(v, np.ndarray) else v
        for v in values
    ]
    every = comm.allgather(repr(texts))
    other = next((rank for rank, text in enumerate(every) if text != every[0]), 0)
    if other:
        raise InputError(f"{what} differ between rank 0 and rank {other}; give all ranks the same")


def shared_seed(comm: MPI.Comm, random_state: Any) -> int:
    """A seed by scikit-learn's ``random_state``, that of rank 0 on every rank.  Collective.

    Parameters
    ----------
    random_state
        None for NumPy's global stream, an integer, or a ``RandomState`` or ``Generator``, which
        moves on.

    Raises
    ------
    InputError
        On all ranks, where a rank's is something else, or an integer outside 0 ... 2^32 - 1.
    """
    drawn = 0
    with raise_on_all_ranks(comm):
        stream: Any = np.random if random_state is None else random_state
        draw = getattr(stream, "randint", getattr(stream, "integers", None))
        try:
            draw = draw or np.random.RandomState(operator.index(stream)).randint
        except (TypeError, ValueError) as error:
            raise InputError(
                "parameter 'random_state' must be None, an integer from 0 to 2^32 - 1, or a "
                f"generator of NumPy's, not {random_state!r}"
            ) from error
        drawn = int(draw(2**31 - 1))
    return int(comm.bcast(drawn))


def on_root(comm: MPI.Comm, action: Callable[[], T]) -> T:
    """Result of ``action`` run on rank 0 and broadcast; its error is raised on all.  Collective.

    An ``OSError`` becomes an :class:`~thalweg.errors.InputError` with its text.
    """
    error: BaseException | None = None
    content = b""
    if comm.rank == 0:
        try:
            value = action()
            if comm.size == 1:
                return value
            content = MPI.pickle.dumps(value)
        except OSError as caught:
            error = InputError(str(caught))
        except BaseException as caught:
            error = caught
    failed, size = comm.bcast((_description(0, error), len(content)), root=0)
    _raise_lowest(comm, error, [failed])
    buffer = np.frombuffer(content, np.uint8) if comm.rank == 0 else np.empty(size, np.uint8)
    for first in range(0, size, 2**30):  # a count of MPI's is below 2**31
        comm.Bcast(buffer[first : first + 2**30], root=0)
    return value if comm.rank == 0 else MPI.pickle.loads(buffer.tobytes())  # type: ignore[no-any-return]


def _description(rank: int, error: BaseException | None) -> tuple[Any, ...] | None:
    """Description of an error for the other ranks, made of strings and numbers.

    Its rank and type, and the type and arguments of what they raise.
    """
    if error is None:
        return None
    name = type(error).__name__
    kinds = (kind.__name__ for kind in type(error).__mro__ if kind in _REBUILT.values())
    if (known := next(kinds, None)) is not None:
        return rank, name, known, (str(error),)
    if isinstance(error, OSError) and error.errno is not None:
        file = error.filename if isinstance(error.filename, str) else None
        return rank, name, "OSError", (error.errno, error.strerror, file)
    text = str(error).strip()
    return rank, name, "RankError", (f"rank {rank} failed: {name}{': ' + text if text else ''}",)


def _raise_lowest(
    comm: MPI.Comm, error: BaseException | None, failures: list[tuple[Any, ...] | None]
) -> None:
    """Raise the error of the lowest failing rank, on that rank itself as it was."""
    lowest = next((entry for entry in failures if entry is not None), None)
    if lowest is None:
        return
    rank, _, kind, arguments = lowest
    if rank == comm.rank:
        assert error is not None
        raise error
    raise {**_REBUILT, "OSError": OSError}[kind](*arguments) from error


# -- work that communicates --------------------------------------------------------------------


@contextmanager
def abort_on_error(comm: MPI.Comm | None = None) -> Iterator[None]:
    """A block that all ranks leave together: normally, with an error, or as the job ends.

    Use it around the body of a script that runs under ``mpirun``; the command line,
    :func:`thalweg.run`, :func:`thalweg.minimize` and the estimators do so themselves.
    Collective at its beginning and its end.

    Parameters
    ----------
    comm
        By default ``MPI.COMM_WORLD``.

    Raises
    ------
    BaseException
        What the block raised, where all ranks come to its end within :data:`TIMEOUT` seconds
        of it.  A rank that itself did not fail raises the error of the lowest that did, as
        :func:`raise_on_all_ranks` does.

    Notes
    -----
    Where the other ranks do not come, this rank's number and error are written to stderr (a
    traceback, or the sentence of an error of thalweg's own) and the job is ended by
    ``MPI_Abort``, with the error's exit code: 2 for bad input, 3 for a numerical failure,
    130 for Ctrl-C, the code of a ``SystemExit``, else 1.
    """
    with collective_cleanup(MPI.COMM_WORLD if comm is None else comm, lambda: None):
        yield


@contextmanager
def collective_cleanup(comm: MPI.Comm, free: Callable[[], None]) -> Iterator[None]:
    """As :func:`abort_on_error`, with the collective ``free`` called before all leave.

    It is not called where ranks failed in different ways: messages may then be under way
    that would disturb it.
    """
    if comm.size == 1:
        try:
            yield
        finally:
            free()
        return
    channel = _channel(comm)
    channel.blocks = block = channel.blocks + 1
    error: BaseException | None = None
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException as caught:
        error = caught
    failures = channel.meet(block, error)
    if failures is None:
        assert error is not None
        _end_job(comm, error)
    if len({entry[1] for entry in failures if entry is not None}) <= 1:
        free()
    if error is not None:
        raise error
    _raise_lowest(comm, None, failures)


def collective_call(comm_of: Callable[..., MPI.Comm]) -> Callable[[F], F]:
    """Decorator: a function whose body is a block of :func:`abort_on_error`.

    ``comm_of`` is called with the function's arguments, and gives the communicator.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with abort_on_error(comm_of(*args, **kwargs)):
                return function(*args, **kwargs)

        return cast(F, call)

    return decorate


class _Channel:
    """A duplicate of a communicator, on which ranks meet at the ends of blocks."""

    def __init__(self, comm: MPI.Comm) -> None:
        self.comm = comm.Dup()
        #: Number of the last block: blocks are entered in the same order on all ranks.
        self.blocks = 0

    def meet(self, block: int, error: BaseException | None) -> list[tuple[Any, ...] | None] | None:
        """Wait for all ranks at the end of the block: how each failed, None where it did not.

        None in place of the list if this rank failed and the others do not come, or come to the
        end of another block.
        """
        mine = np.array([block, error is not None], dtype=np.int64)
        arrived = np.zeros((self.comm.size, 2), dtype=np.int64)
        request = self.comm.Iallgather(mine, arrived)
        deadline = time.monotonic() + TIMEOUT
        pause = 1e-5
        while not request.Test():
            if error is not None and time.monotonic() > deadline:
                return None
            time.sleep(pause)
            pause = min(2.0 * pause, 0.01)
        if (arrived[:, 0] != block).any():
            if error is None:  # a rank left an outer block, and will not come to this one
                time.sleep(TIMEOUT)
                error = RankError("the ranks left different blocks, since one of them failed")
                _end_job(self.comm, error)
            return None
        if not arrived[:, 1].any():
            return [None] * self.comm.size
        return self.comm.allgather(_description(self.comm.rank, error))


_keyval: list[int] = []


def _channel(comm: MPI.Comm) -> _Channel:
    """The communicator's channel.  Collective at the first call for a communicator."""
    if not _keyval:
        _keyval.append(MPI.Comm.Create_keyval(delete_fn=_free_channel))
    channel = cast(_Channel | None, comm.Get_attr(_keyval[0]))
    if channel is None:
        channel = _Channel(comm)
        comm.Set_attr(_keyval[0], channel)
    return channel


def _free_channel(comm: MPI.Comm, keyval: int, channel: _Channel) -> None:
    if not MPI.Is_finalized():
        channel.comm.Free()


def _end_job(comm: MPI.Comm, error: BaseException) -> NoReturn:
    """Say which rank failed and how, and end all ranks."""
    if isinstance(error, ThalwegError):
        text = f"thalweg: rank {comm.rank}: {printable(str(error))}\n"
    else:
        trace = "".join(traceback.format_exception(error))
        text = f"thalweg: rank {comm.rank} of {comm.size} failed:\n{trace}"
    try:
        for stream in (sys.stdout, sys.stderr):
            # A stream may be closed, or None, and there may be no process that reads it.
            with suppress(OSError, ValueError, AttributeError):
                if stream is sys.stderr:
                    stream.write(text)
                stream.flush()
        time.sleep(0.2)  # for the launcher to pass the text on
    finally:
        try:
            comm.Abort(exit_code(error))
        finally:
            os._exit(exit_code(error))


def exit_code(error: BaseException) -> int:
    """Exit code of a process that ends by this error; never 0."""
    if isinstance(error, ThalwegError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code or 1
    return 1
