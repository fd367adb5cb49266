"""Everything that depends on ranks: layouts, reductions, failures and the engines.

The engines are :mod:`~thalweg.parallel.laplacian` (systems with a graph Laplacian, set up once
and solved many times), :mod:`~thalweg.parallel.operators` (matrices given by their product) and
:mod:`~thalweg.parallel.pairs` (all pairs of rows, streamed around a ring of ranks).  Their names
are imported when first used, so that what needs none of them stays quick.  ``README.md`` beside
this file is the guide.
"""

from typing import TYPE_CHECKING

from mpi4py import MPI

from thalweg.lazy import lazy_names
from thalweg.parallel.failures import (
    abort_on_error,
    attempted,
    collective_call,
    collective_cleanup,
    on_root,
    raise_on_all_ranks,
    refuse_differing,
    shared_seed,
)
from thalweg.parallel.identity import Identified, sketch
from thalweg.parallel.kernels import code_key, kernel, run_clock
from thalweg.parallel.layout import Layout
from thalweg.parallel.pencils import RankGrid, Transposition, grid_shape
from thalweg.parallel.petsc import PETSc, command_line_options, options_prefix, temporary_options
from thalweg.parallel.redistribution import Relocation, RowMatrix, RowRoutes, swap_rows
from thalweg.parallel.reductions import (
    agreed,
    any_over_ranks,
    exact_sum,
    max_over_ranks,
    min_over_ranks,
    nth_over_ranks,
    same_on_all_ranks,
    sum_large,
    sum_over_ranks,
    values_of_all_ranks,
)
from thalweg.parallel.row_files import save_rows, write_rows
from thalweg.parallel.threads import job_threads, limit_threads, restored_thread_limits, threads_for
from thalweg.parallel.traffic import Phase, phase, phases
from thalweg.parallel.watchdog import beat, watchdog

if TYPE_CHECKING:
    from thalweg.parallel.laplacian import LaplacianSolver, component_labels
    from thalweg.parallel.operators import hessian_operator, matrix_free, remove_shift
    from thalweg.parallel.pairs import Ring, RingBlock, nearest_neighbors
    from thalweg.parallel.pairs.approximate_neighbors import approximate_neighbors
    from thalweg.parallel.pairs.coarse_cells import CoarseCells
    from thalweg.parallel.pairs.kernel_sums import KernelSums
    from thalweg.parallel.pairs.secants import SecantSet
    from thalweg.parallel.row_exchange import RowExchange, RowPlan, rows_at

__all__ = [
    "MPI", "CoarseCells", "Identified", "KernelSums", "LaplacianSolver", "Layout", "PETSc", "Phase",
    "RankGrid", "Relocation", "Ring", "RingBlock", "RowExchange", "RowMatrix", "RowPlan",
    "RowRoutes", "SecantSet", "Transposition", "abort_on_error", "agreed", "any_over_ranks",
    "approximate_neighbors", "attempted", "beat", "code_key", "collective_call",
    "collective_cleanup", "command_line_options", "component_labels", "exact_sum", "grid_shape",
    "hessian_operator", "job_threads", "kernel", "limit_threads", "matrix_free", "max_over_ranks",
    "min_over_ranks", "nearest_neighbors", "nth_over_ranks", "on_root", "options_prefix", "phase",
    "phases", "raise_on_all_ranks", "refuse_differing", "remove_shift", "restored_thread_limits",
    "rows_at", "run_clock", "same_on_all_ranks", "save_rows", "shared_seed", "sketch", "sum_large",
    "sum_over_ranks", "swap_rows", "temporary_options", "threads_for", "values_of_all_ranks",
    "watchdog", "write_rows",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
