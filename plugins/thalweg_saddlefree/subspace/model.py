"""The quadratic model over a few directions, minimized with absolute eigenvalues."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg_saddlefree.capabilities import Forms

#: Directions whose scaled Gram matrix has an eigenvalue below this part of the largest
#: repeat others.
DEPENDENT = 1e-7


@dataclass(frozen=True)
class SubspaceStep:
    """Minimizer of the model."""

    coefficients: np.ndarray  # coefficients of the step in the directions, shape ``(k,)``
    change: float  # change of the objective that the damped model predicts, negative
    #: Least curvature per squared length that the Hessian has in the subspace, of either sign; NaN
    #: where only the Gauss-Newton matrix is known, no direction has a length, or JAX computes.
    lowest: float


@dataclass(frozen=True)
class SubspaceModel:
    """Slopes, inner products and curvatures of directions ``V``."""

    slopes: np.ndarray  # ``V'g``, shape ``(k,)``
    gram: np.ndarray  # ``V'V``
    forms: Forms  # ``V'BV``
    xp: Any = np  # or ``jax.numpy``, for arrays that are traced

    def step(self, damping: float) -> SubspaceStep:
        """Minimizer of ``g'Vc + c'Kc / 2``.

        With the Gauss-Newton matrix G alone, ``K = V'GV + damping V'V`` (Martens and Grosse 2015,
        equation 16); with the Hessian H too, equation (2) of MATHEMATICS.md; with H alone,
        ``K = |V'HV| + damping V'V``, the absolute value in the metric ``V'V``.
        """
        gauss_newton, hessian, xp = self.forms.gauss_newton, self.forms.hessian, self.xp
        if gauss_newton is None:
            assert hessian is not None
            basis = orthonormal(self.gram, xp)
            values, vectors = xp.linalg.eigh(basis.T @ hessian @ basis)
            basis, curvature = basis @ vectors, xp.abs(values) + damping
        else:
            basis = orthonormal(gauss_newton + damping * self.gram, xp)
            curvature = xp.ones(basis.shape[1], basis.dtype)
            if hessian is not None:
                values, vectors = xp.linalg.eigh(basis.T @ (hessian + damping * self.gram) @ basis)
                basis, curvature = basis @ vectors, xp.maximum(xp.abs(values), 1.0)
        along = -(basis.T @ self.slopes) / curvature
        change = -0.5 * (along @ (curvature * along))
        step, lowest = basis @ along, np.empty(0)
        if hessian is not None and xp is np:
            basis = orthonormal(self.gram)
            lowest = np.linalg.eigvalsh(basis.T @ hessian @ basis)
        return SubspaceStep(step, change, float(lowest[0]) if len(lowest) else float("nan"))

    @property
    def curvature(self) -> float:
        """Largest curvature per squared length along a direction, by either matrix."""
        xp, forms = self.xp, (self.forms.gauss_newton, self.forms.hessian)
        diagonals = xp.stack([xp.diag(form) for form in forms if form is not None])
        lengths = xp.maximum(xp.diag(self.gram), xp.finfo(self.gram.dtype).tiny)
        return xp.max(xp.abs(diagonals) / lengths)  # type: ignore[no-any-return]


def orthonormal(metric: np.ndarray, xp: Any = np) -> np.ndarray:
    """Coefficients of vectors that are orthonormal in a metric and span what it does not null.

    Of ``jax.numpy`` as many as the metric has columns, of which those to spare are zero.
    """
    numbers = xp.finfo(metric.dtype)
    scale = 1.0 / xp.sqrt(xp.maximum(xp.diag(metric), numbers.tiny))
    values, vectors = xp.linalg.eigh(metric * scale[:, None] * scale)
    independent = values > max(DEPENDENT, 8.0 * float(numbers.eps)) * values[-1]
    if xp is np:
        values, vectors = values[independent], vectors[:, independent]
    else:
        values = xp.where(independent, values, xp.inf)
    return scale[:, None] * vectors / xp.sqrt(values)  # type: ignore[no-any-return]
