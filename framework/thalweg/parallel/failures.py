"""What happens when one rank fails: the others learn of it, and none hangs."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from mpi4py import MPI

from thalweg.errors import InputError, ThalwegError

T = TypeVar("T")

#: Seconds that a failing rank waits for the others to fail in the same way.
TIMEOUT = 2.0


@contextmanager
def raise_on_all_ranks(comm: MPI.Comm) -> Iterator[None]:
    """Turn an error of thalweg's own on any rank into the same error on all.  Collective.

    The block must not communicate, since a rank may leave it early; use it round
    work such as reading a file, that can fail on one rank alone.  The error of
    the lowest rank is the one that all raise.
    """
    mine: ThalwegError | None = None
    try:
        yield
    except ThalwegError as error:
        mine = error
    found = comm.allgather((type(mine), str(mine)) if mine is not None else None)
    for rank, failure in enumerate(found):
        if failure is not None:
            if rank == comm.rank and mine is not None:
                raise mine
            kind, text = failure
            raise kind(text)


def on_root(comm: MPI.Comm, action: Callable[[], T]) -> T:
    """Result of ``action`` run on rank 0 and broadcast; its error is raised on all.  Collective."""
    outcome: tuple[bool, object] = (True, None)
    if comm.rank == 0:
        try:
            outcome = (True, action())
        except ThalwegError as error:
            outcome = (False, error)
        except OSError as error:
            outcome = (False, InputError(str(error)))
    fine, value = comm.bcast(outcome, root=0)
    if not fine:
        assert isinstance(value, BaseException)
        raise value
    return value  # type: ignore[return-value]


@contextmanager
def collective_cleanup(comm: MPI.Comm, free: Callable[[], None]) -> Iterator[None]:
    """Call the collective ``free`` at the end of the block, and where all ranks leave it early.

    All raise thalweg's own errors together.  Any other error may be that of one
    rank, which would wait in ``free`` for the others instead of ending the run.
    """
    try:
        yield
    except BaseException as error:
        if comm.size == 1 or isinstance(error, ThalwegError):
            free()
        raise
    free()


def barrier_with_timeout(comm: MPI.Comm, timeout: float = TIMEOUT) -> bool:
    """Whether all ranks reach this call within ``timeout`` seconds."""
    request = comm.Ibarrier()
    deadline = time.monotonic() + timeout
    while not request.Test():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@contextmanager
def abort_on_error(comm: MPI.Comm | None = None) -> Iterator[None]:
    """End every rank when one raises: its number and traceback go to stderr.

    Use it round the body of a script that runs under ``mpirun``; the command
    line does so itself.  On one rank the error just passes through.
    """
    comm = MPI.COMM_WORLD if comm is None else comm
    try:
        yield
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException:
        if comm.size == 1:
            raise
        sys.stderr.write(f"thalweg: rank {comm.rank} of {comm.size} failed:\n")
        traceback.print_exc()
        sys.stderr.flush()
        comm.Abort(1)
