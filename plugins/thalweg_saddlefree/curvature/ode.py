"""|H| by a differential equation: the reference method of the saddle-free note.

Arjovsky (2015), "Saddle-free Hessian-free optimization", after Allen, Baglama
and Boyd (2000): with ``A = (H^2 + damping^2 I) / s`` the solution of

    dx/dt = -1/2 (t A + (1 - t) I)^(-1) (I - A) x,   x(0) = v      (4)

is ``x(1) = A^(1/2) v``; then ``H^2 step = -|H| g`` is solved by conjugate
gradients (3).  Every stage of every Runge-Kutta step is a linear solve with
H^2, so a direction takes thousands of products.  It is kept to be measured
against.
"""

from __future__ import annotations

import numpy as np

from thalweg.numerics import conjugate_gradients
from thalweg_saddlefree.curvature.absolute import AbsoluteSolver, Direction, refuse_singular
from thalweg_saddlefree.curvature.basis import LanczosBasis
from thalweg_saddlefree.curvature.fehlberg import integrate
from thalweg_saddlefree.curvature.operator import Product

#: Lanczos steps that bound the norm of H.
BOUND_STEPS = 12


class OdeAbsolute(AbsoluteSolver):
    """The method of Arjovsky (2015): Runge-Kutta-Fehlberg 4(5) with conjugate gradients inside."""

    inner_part: float = 0.1  # relative residual of the solves inside, as a part of the tolerance

    _norm: float | None = None
    _smallest: float = 0.0

    def direction(self, damping: float) -> Direction:
        """The step at this damping; nothing is shared between dampings but the scale."""
        if self._norm is None:
            self._bound_norm()
            assert self._norm is not None
        refuse_singular(self._smallest, self._norm, damping)
        scale = self._norm**2 + damping**2
        # The products below are with A, whose eigenvalues lie in (0, 1].
        worst = 0.0

        def shrunk(piece: np.ndarray) -> np.ndarray:
            return (self.product(self.product(piece)) + damping**2 * piece) / scale

        def slope(t: float, x: np.ndarray) -> np.ndarray:
            nonlocal worst

            def blend(piece: np.ndarray) -> np.ndarray:
                return t * shrunk(piece) + (1.0 - t) * piece

            solution, residual = self._solved(blend, x - shrunk(x))
            worst = max(worst, residual)
            return -0.5 * solution

        root = integrate(self.slices, slope, self.gradient, self.tolerance)
        # |H| g = sqrt(scale) A^(1/2) g, and (H^2 + damping^2 I) step = -|H| g.
        solution, residual = self._solved(shrunk, root)
        worst = max(worst, residual)
        if not np.isfinite(worst):
            refuse_singular(0.0, self._norm, damping)
        step = -solution / np.sqrt(scale)
        reached = worst <= self.inner_part * self.tolerance
        return Direction(step, self.model_along(step), self.tolerance if reached else worst)

    def _solved(self, product: Product, right: np.ndarray) -> tuple[np.ndarray, float]:
        """Solution of ``A x = right``, A positive definite, and its residual relative to ``right``.

        The residual is infinite where A is not positive definite.
        """
        start = self.slices.dot(right, right)
        goal = (self.inner_part * self.tolerance) ** 2 * start
        solution = conjugate_gradients(
            product, np.zeros_like(right), right, self.slices.dot, goal, self.limit
        )
        self.steps += solution.iterations
        if not solution.definite:
            return solution.x, float("inf")
        return solution.x, float(np.sqrt(solution.square / start)) if start > 0.0 else 0.0

    def _bound_norm(self) -> None:
        basis = LanczosBasis(self.slices, self.gradient)
        basis.extend_to(BOUND_STEPS, self.product)
        values = basis.ritz_values()
        self.lowest = float(values[0])
        # A Ritz value is off by at most the norm of what the last step left over.
        self._norm = float(np.abs(values).max()) + basis.off_diagonal[-1]
        self._smallest = float(np.abs(values).min()) if basis.complete else self._norm
