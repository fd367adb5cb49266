"""Threads of BLAS, OpenMP and Numba, limited so that ranks x threads fit the cores."""

import functools
import operator
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
import threadpoolctl
from mpi4py import MPI

from thalweg.errors import InputError
from thalweg.parallel.failures import raise_on_all_ranks

T = TypeVar("T")

#: Variables in which launchers state how many ranks share a machine.
_LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PALS_LOCAL_SIZE")

#: Libraries that are loaded after the limit is set read it from these.
_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")

#: Terms of an evaluation, of 3 to 4 ns each on one machine, below which threads are not worth their
#: wait for each other: of all its loops that is about a millisecond, and more where it is busy.
MANY_TERMS = 2.0**20

#: Most items that a thread takes at once; chosen by hand.
_TURN = 8

#: Number of threads that the user asked for, before a limit was set.
_ASKED = os.environ.get("OMP_NUM_THREADS", "")


def threads_per_rank(comm: MPI.Comm) -> int:
    """Threads that each rank of this machine may use.  Collective.

    The cores that the ranks of one machine may run on together, shared out evenly; never more than
    this rank itself may run on, than a container's quota, or than ``OMP_NUM_THREADS`` asks for.
    ``THALWEG_THREADS``, a positive integer or an ``InputError``, overrides it all.
    """
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        facts = node.allgather((usable_cores(), cpu_quota(), _launched_here()))
    finally:
        node.Free()
    mine = len(usable_cores())
    together = len(set().union(*(cores for cores, _, _ in facts)))
    ranks = max(len(facts), *(launched for _, _, launched in facts))
    quota = min(quota for _, quota, _ in facts)
    share = max(1, int(min(mine, together / ranks, quota / ranks)))

    asked = comm.bcast(os.environ.get("THALWEG_THREADS", ""), root=0)
    if asked:
        if not asked.isdecimal() or not 0 < int(asked) < 10**6:
            raise InputError(f"THALWEG_THREADS must be a positive integer, not '{asked}'")
        return int(asked)
    return min(share, _asked_threads() or share)


def limit_threads(comm: MPI.Comm) -> int:
    """Limit BLAS, OpenMP and Numba to :func:`threads_per_rank`; returns it.  Collective.

    It lasts until the process ends, or :func:`restored_thread_limits` does.
    """
    threads = threads_per_rank(comm)
    threadpoolctl.threadpool_limits(limits=threads)
    for name in _LIMITS:
        os.environ[name] = str(threads)
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(threads, most))
    return threads


@contextmanager
def threads_for(terms: float) -> Iterator[None]:
    """One thread of BLAS, OpenMP and Numba in the block, where evaluations have few terms.

    From :data:`MANY_TERMS` on each rank on, threads stay as they are.
    """
    own = numba.get_num_threads()
    if own == 1 or terms >= MANY_TERMS:
        yield
        return
    with threadpoolctl.threadpool_limits(limits=1):
        numba.set_num_threads(1)
        try:
            yield
        finally:
            numba.set_num_threads(own)


@contextmanager
def job_threads(n_jobs: int | None, comm: MPI.Comm = MPI.COMM_SELF) -> Iterator[None]:
    """Threads of BLAS, OpenMP and Numba in the block, as scikit-learn's ``n_jobs`` counts them.

    Collective where it begins.

    Parameters
    ----------
    n_jobs
        Threads; None for as many as there are, -1 for all cores, -2 for all but one.

    Raises
    ------
    InputError
        Zero, or no integer, on any rank.
    """
    with raise_on_all_ranks(comm):
        try:
            count = 0 if isinstance(n_jobs, bool) else operator.index(n_jobs or 0)
        except TypeError:
            count = 0
        if count == 0 and n_jobs is not None:
            raise InputError(
                f"parameter 'n_jobs' must be an integer other than 0, or None, not {n_jobs!r}"
            )
    if count == 0:
        yield
        return
    count = count if count > 0 else max(1, len(usable_cores()) + 1 + count)
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    with restored_thread_limits(), threadpoolctl.threadpool_limits(limits=count):
        numba.set_num_threads(min(count, most))
        yield


def run_on_threads(
    work: Callable[[T], None], items: list[T], poll: Callable[[], None] = lambda: None
) -> None:
    """Work on every item, on Numba's threads with BLAS on one each; this one alone polls MPI."""
    with one_blas_thread():
        threads = numba.get_num_threads()
        if threads == 1 or len(items) < 2:
            for item in items:
                work(item)
                poll()
            return
        turn = max(1, min(_TURN, len(items) // (8 * threads)))

        def work_on_some(first: int) -> None:
            for item in items[first : first + turn]:
                work(item)

        turns = [_pool(threads).submit(work_on_some, k) for k in range(0, len(items), turn)]
        try:
            for one in turns:
                one.result()
                poll()
        finally:  # also where one failed, none may still write when this returns
            for one in turns:
                one.cancel()
            wait(turns)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that wait for work; begun once, since a sum of few rows takes no longer than that.

    Work on them is not shared out again.
    """
    return ThreadPoolExecutor(threads, initializer=lambda: numba.set_num_threads(1))


os.register_at_fork(after_in_child=_pool.cache_clear)  # no thread survives a fork


def one_blas_thread() -> AbstractContextManager[Any]:
    """One thread of BLAS and LAPACK in a block: the same bits at any number of threads."""
    return _threaded_libraries().limit(limits=1, user_api="blas")


_threaded_libraries = functools.cache(threadpoolctl.ThreadpoolController)


@contextmanager
def restored_thread_limits() -> Iterator[None]:
    """Undo at the end of the block, or of a decorated function, what :func:`limit_threads` did.

    Libraries that the block loaded are given the threads they would have begun with.
    """
    environment = {name: os.environ.get(name) for name in _LIMITS}
    before = threadpoolctl.threadpool_limits(limits=None)
    known = {pool["filepath"] for pool in threadpoolctl.threadpool_info()}
    own = numba.get_num_threads()
    try:
        yield
    finally:
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        default = _asked_threads() or os.cpu_count() or 1
        for library in threadpoolctl.ThreadpoolController().lib_controllers:
            if library.filepath not in known:
                library.set_num_threads(default)
        before.restore_original_limits()
        numba.set_num_threads(own)


def usable_cores() -> set[int]:
    """Cores that this process may run on: all, where the system knows no binding, as macOS."""
    everywhere = set(range(os.cpu_count() or 1))
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else everywhere


def cpu_quota(root: Path = Path("/sys/fs/cgroup")) -> float:
    """Cores that the container's quota is worth; infinite without one.

    Read from the control groups of Linux, version 2 or 1, as mounted at ``root``.
    """
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((root / name).read_text() for name in names).split()
        except (OSError, ValueError):
            continue
        limited = quota.isdigit() and int(period) > 0  # not "max", nor -1
        return int(quota) / int(period) if limited else float("inf")
    return float("inf")


def _launched_here() -> int:
    # A communicator may hold only some of a machine's ranks, COMM_SELF one of them.
    sizes = (os.environ.get(name, "") for name in _LOCAL_SIZES)
    return next((int(size) for size in sizes if size.isdecimal()), 1)


def _asked_threads() -> int | None:
    # OpenMP allows a list, one number a nesting level.
    first = _ASKED.split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None
