"""Products with a Hessian that is never formed, as operators for Krylov solvers.

The contract is :class:`HessianProduct` and its relatives: what an objective offers.
"""

from typing import TYPE_CHECKING

from thalweg.engines.hessian.contract import GaussNewtonProduct, HessianDiagonal, HessianProduct
from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg.engines.hessian.operators import hessian_operator, matrix_free, remove_shift

__all__ = [
    "GaussNewtonProduct", "HessianDiagonal", "HessianProduct", "hessian_operator",
    "matrix_free", "remove_shift",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
