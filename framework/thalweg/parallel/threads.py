"""Threads of BLAS, OpenMP and Numba, limited so that ranks x threads fit the cores."""

from __future__ import annotations

import os

from mpi4py import MPI


def threads_per_rank(comm: MPI.Comm) -> int:
    """Threads that each rank of this machine may use.  Collective.

    The cores that the ranks of one machine may run on together, shared out
    evenly; never more than this rank itself may run on.  ``THALWEG_THREADS``
    overrides it.
    """
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        mine = os.sched_getaffinity(0)
        together = set().union(*node.allgather(mine))
        share = max(1, min(len(mine), len(together) // node.size))
        wanted = os.environ.get("THALWEG_THREADS", "")
        return max(1, int(wanted)) if wanted.isdigit() else share
    finally:
        node.Free()


def limit_threads(comm: MPI.Comm) -> int:
    """Limit BLAS, OpenMP and Numba to :func:`threads_per_rank`; returns it.  Collective."""
    import numba
    import threadpoolctl

    threads = threads_per_rank(comm)
    threadpoolctl.threadpool_limits(limits=threads)
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(threads, most))
    return threads
