"""The conformance suite: what plugin authors run on their own code.

Every check is collective, and raises an error, mostly ``AssertionError``, with one sentence that
says what is wrong and by how much; so each is a test by itself::

    from thalweg.parallel import MPI
    from thalweg.testing import check_gradient

    def test_gradient():
        objective = MyObjective(MPI.COMM_WORLD)
        check_gradient(objective, objective.initial_point(seed=0))
"""

from thalweg.testing.capabilities import (
    check_attractive_weights,
    check_capabilities,
    check_homotopy,
    check_manifold,
)
from thalweg.testing.derivative_checks import (
    check_gauss_newton_product,
    check_gradient,
    check_hessian_diagonal,
    check_hessian_product,
)
from thalweg.testing.probes import applied, check_symmetric
from thalweg.testing.reference import SpringProblem
from thalweg.testing.solver_checks import (
    check_preconditioner,
    check_ranks,
    check_resumption,
    check_same_start,
    check_solver,
)

__all__ = [
    "SpringProblem", "applied", "check_attractive_weights", "check_capabilities",
    "check_gauss_newton_product", "check_gradient", "check_hessian_diagonal",
    "check_hessian_product", "check_homotopy", "check_manifold", "check_preconditioner",
    "check_ranks", "check_resumption", "check_same_start", "check_solver", "check_symmetric",
]  # fmt: skip
