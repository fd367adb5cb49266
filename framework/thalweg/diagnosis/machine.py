"""What the machine gives to this run: cores, and a place for compiled kernels."""

from __future__ import annotations

import os
from collections.abc import Iterator

from thalweg.diagnosis.finding import Finding


def cores() -> Iterator[Finding]:
    """How the ranks of this run share the cores."""
    from mpi4py import MPI

    from thalweg.parallel.threads import cpu_quota, threads_per_rank

    threads = MPI.COMM_WORLD.allgather(threads_per_rank(MPI.COMM_WORLD))
    mine = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    limit = f", worth {quota:g} by quota" if quota < mine else ""
    each = str(threads[0]) if len(set(threads)) == 1 else f"{min(threads)} to {max(threads)}"
    value = (
        f"{mine} of {os.cpu_count()} cores for this rank{limit}; "
        f"ranks {len(threads)}, threads per rank {each}"
    )
    yield Finding("cores", value)


def kernel_cache() -> Iterator[Finding]:
    """Whether compiled kernels are kept from run to run."""
    from thalweg.parallel.kernels import cache_folder, wished_cache_folder

    wished, folder = wished_cache_folder(), cache_folder()
    if folder == wished:
        yield Finding("kernel cache", str(folder))
    else:
        yield Finding(
            "kernel cache",
            str(folder),
            f"{wished} cannot be written, so kernels may be compiled again in later runs",
            "set THALWEG_CACHE to a folder that can be",
        )
