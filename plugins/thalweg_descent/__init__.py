"""Generic descent: directions, line searches, and adapters to TAO and SciPy.

A native solver is a *direction* (steepest, conjugate or limited-memory) with a
*line search* (backtracking or strong Wolfe); see :mod:`thalweg_descent.descent`
for the step that joins them.  Everything is written with operations on ``Vec``,
so that it is right for distributed and for replicated variables.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg_descent.gradient_descent import GradientDescent
    from thalweg_descent.identity import Identity
    from thalweg_descent.lbfgs import LBFGS
    from thalweg_descent.nonlinear_cg import NonlinearCG
    from thalweg_descent.scipy_minimize import ScipyMinimize
    from thalweg_descent.tao import Tao

_WHERE = {
    "GradientDescent": "gradient_descent",
    "Identity": "identity",
    "LBFGS": "lbfgs",
    "NonlinearCG": "nonlinear_cg",
    "ScipyMinimize": "scipy_minimize",
    "Tao": "tao",
}

__all__ = ["LBFGS", "GradientDescent", "Identity", "NonlinearCG", "ScipyMinimize", "Tao"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'thalweg_descent' has no attribute {name!r}")
    return getattr(importlib.import_module(f"thalweg_descent.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
