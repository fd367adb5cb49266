"""Generic descent: directions, line searches, and adapters to TAO and SciPy.

A native solver is a *direction* (steepest, conjugate or limited-memory) with a
*line search* (backtracking or strong Wolfe); see :mod:`thalweg_descent.descent`
for the step that joins them.  Inner products are those of the variable's layout, so
that everything is right for distributed and for replicated variables.
"""

from typing import TYPE_CHECKING

from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg_descent.descent import Identity
    from thalweg_descent.gradient_descent import GradientDescent
    from thalweg_descent.lbfgs import LBFGS
    from thalweg_descent.nonlinear_cg import NonlinearCG
    from thalweg_descent.scipy_minimize import ScipyMinimize
    from thalweg_descent.tao import Tao

__all__ = ["LBFGS", "GradientDescent", "Identity", "NonlinearCG", "ScipyMinimize", "Tao"]

__getattr__, __dir__ = lazy_names(__name__)
