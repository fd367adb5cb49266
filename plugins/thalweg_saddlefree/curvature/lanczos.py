"""|H| by Lanczos on H itself: one basis, every damping, one product a step."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from thalweg.parallel import agreed
from thalweg_saddlefree.curvature.absolute import (
    SCALE_STEPS,
    AbsoluteSolver,
    AbsoluteStep,
    Model,
    refuse_singular,
)
from thalweg_saddlefree.curvature.basis import LanczosBasis
from thalweg_saddlefree.curvature.operator import Product

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
            _, sigma, right = scipy.linalg.svd(self.basis.tridiagonal(steps), full_matrices=False)
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
        curvature = agreed(self.slices.comm, float(y @ self.basis.tridiagonal(steps)[:-1] @ y))
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
        counts = m, m - span, m - 2 * span
        now, before, earlier = (self._coordinates(damping, count) for count in counts)
        size = float(np.linalg.norm(now))
        last = _distance(now, before) / size
        previous = _distance(before, earlier) / size
        ratio = min(max(last / previous if previous > 0 else 0.0, 0.05), 0.95)
        return agreed(self.slices.comm, SAFETY * last * ratio / (1 - ratio))


def _distance(long: np.ndarray, short: np.ndarray) -> float:
    difference = long.copy()
    difference[: len(short)] -= short
    return float(np.linalg.norm(difference))
