"""What a machine itself gives: arithmetic, copies, gathers and exchanges, at some ranks x threads.

Each is a fixed amount of work that all cores share out, as the phases of a run are.
"""

import time
from collections.abc import Callable

import numba
import numpy as np

from thalweg.parallel import MPI

#: Doubles of the array that gathers read from, 32 MB and a power of 2, and of one that is copied.
GATHERED, COPIED = 2**22, 2**25

#: Gathers, steps of arithmetic, and doubles that ranks exchange, of all cores together.
GATHERS, STEPS, EXCHANGED = 2**24, 2**30, 2**21

#: Repeats of which the quickest counts.
REPEATS = 5


def ceilings(comm: MPI.Comm, threads: int) -> dict[str, float]:
    """Seconds of each kind of work on this rank's threads, the slowest rank's.  Collective."""
    generator = np.random.default_rng(comm.rank)
    share = comm.size * threads
    source = generator.random(GATHERED)
    places = generator.integers(0, GATHERED, GATHERS // share // 8, dtype=np.int32)
    places = np.broadcast_to(places, (threads, len(places)))
    copied = generator.random((threads, COPIED // share))
    target = np.empty_like(copied)
    sums = np.empty(threads)
    found = {
        "arithmetic": _quickest(comm, lambda: _multiply(STEPS // share, sums)),
        "copies": _quickest(comm, lambda: _copy(copied, target)),
        "gathers": _quickest(comm, lambda: _gather(source, places, sums)),
    }
    if comm.size > 1:
        sent = np.zeros((comm.size, EXCHANGED // comm.size**2))
        received = np.empty_like(sent)
        found["all-to-all of 16 MB"] = _quickest(comm, lambda: comm.Alltoall(sent, received))
    return found


def messages(comm: MPI.Comm) -> tuple[float, float]:
    """Seconds of a message without bytes, and of a byte, between ranks 0 and 1.  Collective."""
    if comm.size == 1:
        return 0.0, 0.0
    seconds = []
    for size, count in ((1, 500), (2**22, 10)):
        buffer = np.zeros(size, dtype=np.uint8)

        def ping(buffer: np.ndarray = buffer, count: int = count) -> None:
            for _ in range(count):
                if comm.rank == 0:
                    comm.Send(buffer, dest=1)
                    comm.Recv(buffer, source=1)
                elif comm.rank == 1:
                    comm.Recv(buffer, source=0)
                    comm.Send(buffer, dest=0)

        seconds.append(_quickest(comm, ping) / (2 * count))
    return seconds[0], (seconds[1] - seconds[0]) / 2**22


def _quickest(comm: MPI.Comm, work: Callable[[], object]) -> float:
    work()
    best = np.inf
    for _ in range(REPEATS):
        comm.barrier()
        began = time.perf_counter()
        work()
        best = min(best, comm.allreduce(time.perf_counter() - began, op=MPI.MAX))
    return float(best)


@numba.njit(parallel=True, fastmath=True, cache=True)
def _multiply(steps, sums):
    """Chains of multiplications and additions that stay in registers."""
    for thread in numba.prange(len(sums)):
        chain = np.arange(16.0)
        for _ in range(steps // 16):
            for lane in range(16):
                chain[lane] = chain[lane] * 0.999 + 0.5
        sums[thread] = chain.sum()


@numba.njit(parallel=True, cache=True)
def _copy(source, target):
    for thread in numba.prange(len(source)):
        for i in range(source.shape[1]):
            target[thread, i] = source[thread, i]


@numba.njit(parallel=True, fastmath=True, cache=True)
def _gather(source, places, sums):
    for thread in numba.prange(len(sums)):
        total = 0.0
        for turn in range(8):
            for i in range(places.shape[1]):
                total += source[(places[thread, i] + 524287 * turn) & (len(source) - 1)]
        sums[thread] = total
