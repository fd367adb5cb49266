"""Methods of applying |H|: by Lanczos on H itself, and by a differential equation, for reference.

With damping ``lam`` the matrix is ``(H^2 + lam^2 I)^(1/2)``: |H| itself without
damping, and never singular with it.  The step is minus its inverse times the
gradient.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg

from thalweg.errors import InputError, NumericalError
from thalweg.numerics import conjugate_gradients
from thalweg.parallel import agreed
from thalweg_saddlefree.curvature.basis import LanczosBasis
from thalweg_saddlefree.curvature.operator import Product
from thalweg_saddlefree.curvature.slices import Slices

#: Smallest singular value, relative to the largest, that a direction without damping tolerates.
SINGULAR = 1e-11

#: Lanczos steps that tell the size of the spectrum; chosen by hand.
SCALE_STEPS = 8


class SpectrumTooWide(NumericalError):
    """This method of applying |H| cannot handle eigenvalues this small; damping helps."""


@dataclass(frozen=True)
class Model:
    """The objective's quadratic model along a step: ``slope + curvature/2`` is its change."""

    slope: float  # ``g'p``
    curvature: float  # ``p'Hp``, of either sign

    @property
    def change(self) -> float:
        """Change that the model predicts; negative for every saddle-free step."""
        return self.slope + 0.5 * self.curvature


@dataclass(frozen=True)
class AbsoluteStep:
    """A saddle-free step with what is known about it."""

    step: np.ndarray  # this rank's slice of ``-(H^2 + damping^2 I)^(-1/2) g``
    model: Model  # the quadratic model along it
    error: float  # estimated relative error of ``step``


@dataclass(eq=False)
class AbsoluteSolver(ABC):
    """One method of applying ``(H^2 + damping^2 I)^(-1/2)`` to minus a gradient."""

    slices: Slices
    plain_product: Product
    gradient: np.ndarray  # this rank's slice of g
    tolerance: float = 1e-6  # relative error of a step
    limit: int = 500  # largest number of Krylov steps

    products: int = field(default=0, init=False)  # with H so far
    steps: int = field(default=0, init=False)  # Krylov steps so far: of Lanczos or of CG
    lowest: float = field(default=float("nan"), init=False)  # most negative Ritz value seen

    def __post_init__(self) -> None:
        self.gradient_norm = self.slices.norm(self.gradient)
        if not self.gradient_norm > 0:
            raise InputError(
                "the gradient is zero or not finite, so |H| gives no direction from it; "
                "start from another point"
            )

    def product(self, piece: np.ndarray) -> np.ndarray:
        """A counted product with H."""
        self.products += 1
        return self.plain_product(piece)

    def largest(self) -> float:
        """Size of the largest eigenvalue of H, from a few Lanczos steps.  Collective."""
        basis = LanczosBasis(self.slices, self.gradient)
        basis.extend_to(SCALE_STEPS, self.product)
        return float(np.abs(basis.ritz_values()).max())

    def model_along(self, step: np.ndarray) -> Model:
        """The quadratic model along a step, at one product.  Collective."""
        curvature = self.slices.dot(step, self.product(step))
        return Model(self.slices.dot(self.gradient, step), curvature)

    @abstractmethod
    def direction(self, damping: float) -> AbsoluteStep:
        """The step at this damping; a singular H is refused where it is 0.  Collective."""


def refuse_singular(smallest: float, largest: float, damping: float) -> None:
    """Raise an `InputError` if H is singular to rounding and nothing damps it."""
    if damping == 0.0 and not smallest > SINGULAR * largest:
        what = "singular" if largest > 0.0 else "zero at this point"
        raise InputError(
            f"the Hessian is {what} and the damping is zero, so |H| has no inverse; "
            "set damping to a positive number"
        )


#: Factor of the extrapolated error, for convergence that slows down; chosen by hand.
SAFETY = 1.5

#: Lanczos steps between two estimates of the error; chosen by hand.
STRIDE = 4


@dataclass(eq=False)
class LanczosAbsolute(AbsoluteSolver):
    """Steps for every damping from one Lanczos basis, which is stored in ``dtype``.

    With ``H V_m = V_(m+1) T`` (T tridiagonal with one row more than columns) the matrix ``T'T`` is
    the projection of H^2 onto the Krylov space of H, so

        (H^2 + lam^2 I)^(-1/2) g  ~  V_m (T'T + lam^2 I)^(-1/2) e_1 |g|

    The singular values of T never fall below the smallest one of H (MATHEMATICS.md).

    Also stops when a Lanczos step lowers the quadratic model by less than the part ``progress``,
    the rule of Hessian-free optimization (Martens 2010, section 4.4); 0 for never.  With ``solve``,
    the solution of B v = r, |H| is that in the metric of B: with A = B^-1 H, self-adjoint there,
    the step is ``-(A^2 + lam^2 I)^(-1/2) B^-1 g``.
    """

    progress: float = 0.0
    dtype: np.dtype[Any] | None = None
    solve: Product | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.basis = LanczosBasis(self.slices, self.gradient, self.dtype, self.solve)
        self.gradient_norm = self.basis.start_norm
        self._coordinates_of: dict[tuple[float, int, bool], np.ndarray] = {}

    def largest(self) -> float:
        """Largest Ritz value in size; takes its steps in the basis itself."""
        self.steps += self.basis.extend_to(SCALE_STEPS, self.product)
        return float(np.abs(self.basis.ritz_values()).max())

    def direction(self, damping: float) -> AbsoluteStep:
        """The step at this damping; the basis grows only where the error asks for it."""
        error = self._error(damping)
        while (
            error > self.tolerance
            and not self.basis.complete
            and self.steps < self.limit
            and not self._is_slow(damping)
        ):
            more = min(STRIDE, self.limit - self.steps)
            self.steps += self.basis.extend_to(len(self.basis) + more, self.product)
            error = self._error(damping)
        return self.cheap_direction(damping, error)

    def cheap_direction(self, damping: float, error: float | None = None) -> AbsoluteStep:
        """The step at this damping from the present basis: no product whatever the error."""
        y, model = self._modeled(damping, len(self.basis))
        self.lowest = float(self.basis.ritz_values()[0])
        error = self._error(damping) if error is None else error
        return AbsoluteStep(self.basis.combine(y), model, error)

    def _coordinates(self, damping: float, steps: int) -> np.ndarray:
        # An estimate of the error asks for those of earlier estimates again.
        key = (damping, steps, self.basis.complete)
        if key not in self._coordinates_of:
            matrix = self.basis.tridiagonal(steps)
            _, sigma, right = scipy.linalg.svd(matrix, full_matrices=False)
            sigma, right = agreed(self.slices.comm, (sigma, right))
            if self.basis.complete:
                refuse_singular(float(sigma[-1]), float(sigma[0]), damping)
            scaled = right.T @ (right[:, 0] / np.hypot(sigma, damping))
            self._coordinates_of[key] = -self.gradient_norm * scaled
        return self._coordinates_of[key]

    def _is_slow(self, damping: float) -> bool:
        """Whether the last steps lowered the model by too little to go on."""
        m, window = len(self.basis), 2 * STRIDE
        if self.progress == 0.0 or m < 2 * window:
            return False
        now, before = (self._modeled(damping, steps)[1].change for steps in (m, m - window))
        return (now - before) / now < window * self.progress

    def _modeled(self, damping: float, steps: int) -> tuple[np.ndarray, Model]:
        """Coordinates of the step in the first vectors of the basis, and the model along it."""
        y = self._coordinates(damping, steps)
        square = self.basis.tridiagonal(steps)[:-1]
        curvature = agreed(self.slices.comm, float(y @ square @ y))
        return y, Model(self.gradient_norm * float(y[0]), curvature)

    def _error(self, damping: float) -> float:
        """Relative error of the step, extrapolated from how the last steps changed it.

        Convergence is geometric: when ``span`` Lanczos steps change the direction by d,
        and the ``span`` before them changed it by d', the changes still to come add up
        to about ``d q / (1 - q)`` with ``q = d / d'``.
        """
        m = len(self.basis)
        if self.basis.complete:
            return 0.0
        # Even, since a spectrum on both sides of zero makes every other step a small one.
        span = min(2 * STRIDE, 2 * ((m - 1) // 4))
        if m < 2 * STRIDE:
            return float("inf")
        now, before, earlier = (
            self._coordinates(damping, m - back) for back in (0, span, 2 * span)
        )
        size = float(np.linalg.norm(now))
        last = _distance(now, before) / size
        previous = _distance(before, earlier) / size
        ratio = min(max(last / previous if previous > 0 else 0.0, 0.05), 0.95)
        return agreed(self.slices.comm, SAFETY * last * ratio / (1 - ratio))


def _distance(long: np.ndarray, short: np.ndarray) -> float:
    difference = long.copy()
    difference[: len(short)] -= short
    return float(np.linalg.norm(difference))


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
        return AbsoluteStep(step, self.model_along(step), self.tolerance if reached else worst)

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
            at = x + length * (weights @ slopes[:stage])
            slopes[stage] = slope(t + node * length, at)
        error = length * slices.norm((FIFTH - FOURTH) @ slopes) / slices.norm(x)
        allowed = tolerance * length
        if error <= allowed:
            x = x + length * (FIFTH @ slopes)
            t += length
            if t >= 1.0 - 1e-14:  # 1 - t may be left as a rounding error
                return x
        # The error per unit step goes with the fourth power of the length.
        growth = 0.9 * (allowed / error) ** 0.25 if error > 0 else 4.0
        length *= min(4.0, max(0.2, growth))
    raise SpectrumTooWide(
        f"the differential equation needs more than {MOST_STEPS} steps; take method = 'lanczos' or "
        "raise the damping"
    )
