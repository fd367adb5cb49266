"""|H| by a differential equation: the reference method of the saddle-free note."""

from collections.abc import Callable

import numpy as np

from thalweg.errors import NumericalError
from thalweg.numerics import conjugate_gradients
from thalweg_saddlefree.curvature.absolute import AbsoluteSolver, AbsoluteStep, refuse_singular
from thalweg_saddlefree.curvature.basis import LanczosBasis
from thalweg_saddlefree.curvature.operator import Product
from thalweg_saddlefree.curvature.slices import Slices

#: Lanczos steps that bound the norm of H; chosen by hand.
BOUND_STEPS = 12

# Fehlberg (1969), NASA TR R-315, table III.
NODES = (0.0, 1 / 4, 3 / 8, 12 / 13, 1.0, 1 / 2)
STAGES = (
    np.zeros(0),
    np.array([1 / 4]),
    np.array([3 / 32, 9 / 32]),
    np.array([1932 / 2197, -7200 / 2197, 7296 / 2197]),
    np.array([439 / 216, -8.0, 3680 / 513, -845 / 4104]),
    np.array([-8 / 27, 2.0, -3544 / 2565, 1859 / 4104, -11 / 40]),
)
FOURTH = np.array([25 / 216, 0.0, 1408 / 2565, 2197 / 4104, -1 / 5, 0.0])
FIFTH = np.array([16 / 135, 0.0, 6656 / 12825, 28561 / 56430, -9 / 50, 2 / 55])

#: Steps, refused ones included, after which the solution bends too sharply; chosen by hand.
MOST_STEPS = 500


class SpectrumTooWide(NumericalError):
    """This method of applying |H| cannot handle eigenvalues this small; damping helps."""


class OdeAbsolute(AbsoluteSolver):
    """The method of Arjovsky (2015): Runge-Kutta-Fehlberg 4(5) with conjugate gradients inside.

    "Saddle-free Hessian-free optimization", after Allen, Baglama and Boyd (2000): with
    ``A = (H^2 + damping^2 I) / s`` the solution of

        dx/dt = -1/2 (t A + (1 - t) I)^(-1) (I - A) x,   x(0) = v      (4)

    is ``x(1) = A^(1/2) v``; then ``H^2 step = -|H| g`` is solved by conjugate gradients (3).

    The tolerance, and the error told, are those of |H| g; the last solve multiplies them by up to
    the condition of ``H^2 + damping^2 I``.
    """

    inner_part: float = 0.1  # relative residual of the solves inside, as a part of the tolerance

    _norm: float | None = None
    _smallest: float = 0.0

    def direction(self, damping: float) -> AbsoluteStep:
        """The step at this damping; nothing is shared between dampings but the scale."""
        if self._norm is None:
            basis = LanczosBasis(self.slices, self.gradient)
            basis.extend_to(BOUND_STEPS, self.product)
            values = basis.ritz_values()
            self.lowest = float(values[0])
            # A Ritz value is off by at most the norm of what the last step left over.
            self._norm = float(np.abs(values).max()) + basis.off_diagonal[-1]
            self._smallest = float(np.abs(values).min()) if basis.complete else self._norm
        refuse_singular(self._smallest, self._norm, damping)
        scale = self._norm**2 + damping**2
        # The products below are with A, whose eigenvalues lie in (0, 1].
        worst = 0.0

        def shrunk(piece: np.ndarray) -> np.ndarray:
            return (self.product(self.product(piece)) + damping**2 * piece) / scale

        def slope(t: float, x: np.ndarray) -> np.ndarray:
            nonlocal worst
            solution, residual = self._solved(lambda v: t * shrunk(v) + (1 - t) * v, x - shrunk(x))
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
        return AbsoluteStep(step, self.model_along(step), self.tolerance if reached else worst)

    def _solved(self, product: Product, right: np.ndarray) -> tuple[np.ndarray, float]:
        """Solution of ``A x = right``, A positive definite, and its residual relative to ``right``.

        The residual is infinite where A is not positive definite.
        """
        start = self.slices.dot(right, right)
        goal = (self.inner_part * self.tolerance) ** 2 * start
        zeros, dot = np.zeros_like(right), self.slices.dot
        solution = conjugate_gradients(product, zeros, right, dot, goal, self.limit)
        self.steps += solution.iterations
        if not solution.definite:
            return solution.x, float("inf")
        return solution.x, float(np.sqrt(solution.square / start)) if start > 0.0 else 0.0


def integrate(
    slices: Slices,
    slope: Callable[[float, np.ndarray], np.ndarray],
    start: np.ndarray,
    tolerance: float,
) -> np.ndarray:
    """``x(1)`` of ``dx/dt = slope(t, x)``, ``x(0) = start``; this rank's slices.

    The local error of a step, relative to the norm of x and to the step's share
    of the interval, stays below ``tolerance``; the result is that of order 5.
    """
    t, x, length = 0.0, start.copy(), 0.05
    for _ in range(MOST_STEPS):
        length = min(length, 1.0 - t)
        slopes = np.zeros((len(NODES), len(x)))
        for stage, (node, weights) in enumerate(zip(NODES, STAGES, strict=True)):
            slopes[stage] = slope(t + node * length, x + length * (weights @ slopes[:stage]))
        error = length * slices.norm((FIFTH - FOURTH) @ slopes) / slices.norm(x)
        allowed = tolerance * length
        if error <= allowed:
            x = x + length * (FIFTH @ slopes)
            t += length
            if t >= 1.0 - 1e-14:  # 1 - t may be left as a rounding error
                return x
        # The error per unit step goes with the fourth power of the length.
        length *= min(4.0, max(0.2, 0.9 * (allowed / error) ** 0.25 if error > 0 else 4.0))
    raise SpectrumTooWide(
        f"the differential equation needs more than {MOST_STEPS} steps; take method = 'lanczos' or "
        "raise the damping"
    )
