"""The floor: everything that depends on ranks, and MPI alone.

``layout``
    Which rows of a distributed array each rank has; inner products, norms.
``reductions``
    Sums and decisions that are the same on every rank.
``exchange``, ``ring``
    Rows of others: ghost rows by a plan, rows sent to chosen ranks, all blocks in turn.
``failures``
    An error on one rank becomes the same error on all.
``kernels``, ``threads``
    Compiled loops, and how many threads they have.
``traffic``
    What was sent and when.
``petsc``
    The one door to PETSc.

``README.md`` beside this file is the guide.
"""

from typing import TYPE_CHECKING

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:
    # Wheels of mpi4py look for an MPI library when they are imported.
    raise ImportError(
        f"{str(error).splitlines()[0]}; load the module of an MPI, or pip install 'mpich>=4'",
        name="mpi4py",
    ) from error

from thalweg.lazy import lazy_names
from thalweg.parallel.failures import (
    abort_on_error,
    collective_call,
    on_root,
    raise_on_all_ranks,
    refuse_differing,
    shared_seed,
)
from thalweg.parallel.identity import Identified, sketch
from thalweg.parallel.kernels import kernel
from thalweg.parallel.layout import Array, Layout
from thalweg.parallel.reductions import (
    agreed,
    any_over_ranks,
    even_starts,
    exact_sum,
    max_over_ranks,
    min_over_ranks,
    nth_over_ranks,
    sum_large,
    sum_over_ranks,
    values_of_all_ranks,
)
from thalweg.parallel.threads import job_threads, limit_threads, one_blas_thread, run_on_threads
from thalweg.parallel.traffic import phase

if TYPE_CHECKING:
    from thalweg.parallel.exchange import (
        RowExchange,
        RowPlan,
        RowRoutes,
        exchange_rows,
        rows_at,
        swap_rows,
    )
    from thalweg.parallel.petsc import (
        PETSc,
        array_of,
        fill_vec,
        options_prefix,
        temporary_options,
        unused_options,
        vec_over,
    )
    from thalweg.parallel.ring import Ring

__all__ = [
    "MPI", "Array", "Identified", "Layout", "PETSc", "Ring", "RowExchange", "RowPlan", "RowRoutes",
    "abort_on_error", "agreed", "any_over_ranks", "array_of", "collective_call",
    "even_starts", "exact_sum", "exchange_rows", "fill_vec", "job_threads", "kernel",
    "limit_threads", "max_over_ranks", "min_over_ranks", "nth_over_ranks", "on_root",
    "one_blas_thread", "options_prefix", "phase", "raise_on_all_ranks", "refuse_differing",
    "rows_at", "run_on_threads", "shared_seed", "sketch", "sum_large", "sum_over_ranks",
    "swap_rows", "temporary_options", "unused_options", "values_of_all_ranks", "vec_over",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
