"""Everything that knows about ranks: layouts, reductions, failures and the engines.

The three engines are :mod:`~thalweg.parallel.laplacian` (graph Laplacians
factored once), :mod:`~thalweg.parallel.hessian` (matrix-free operators) and
:mod:`~thalweg.parallel.pairs` (all row pairs, streamed round a ring of ranks).
"""

from mpi4py import MPI

from thalweg.parallel.failures import (
    abort_on_error,
    collective_call,
    collective_cleanup,
    on_root,
    raise_on_all_ranks,
)
from thalweg.parallel.kernels import kernel
from thalweg.parallel.layout import Layout
from thalweg.parallel.petsc import PETSc, options_prefix, temporary_options
from thalweg.parallel.reductions import (
    any_over_ranks,
    exact_sum,
    max_over_ranks,
    min_over_ranks,
    same_on_all_ranks,
    sum_large,
    sum_over_ranks,
)
from thalweg.parallel.row_files import save_rows, write_rows
from thalweg.parallel.threads import limit_threads, restored_thread_limits
from thalweg.parallel.watchdog import Watchdog, beat

__all__ = [
    "MPI",
    "Layout",
    "PETSc",
    "Watchdog",
    "abort_on_error",
    "any_over_ranks",
    "beat",
    "collective_call",
    "collective_cleanup",
    "exact_sum",
    "kernel",
    "limit_threads",
    "max_over_ranks",
    "min_over_ranks",
    "on_root",
    "options_prefix",
    "raise_on_all_ranks",
    "restored_thread_limits",
    "same_on_all_ranks",
    "save_rows",
    "sum_large",
    "sum_over_ranks",
    "temporary_options",
    "write_rows",
]
