"""The quadratic model over a few directions, minimized with absolute eigenvalues."""

from dataclasses import dataclass

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
    #: where only the Gauss-Newton matrix is known, or no direction has a length.
    lowest: float


@dataclass(frozen=True)
class SubspaceModel:
    """Slopes, inner products and curvatures of directions ``V``."""

    slopes: np.ndarray  # ``V'g``, shape ``(k,)``
    gram: np.ndarray  # ``V'V``
    forms: Forms  # ``V'BV``

    def step(self, damping: float) -> SubspaceStep:
        """Minimizer of ``g'Vc + c'Kc / 2``.

        With the Gauss-Newton matrix G alone, ``K = V'GV + damping V'V`` (Martens and Grosse 2015,
        equation 16); with the Hessian H too, equation (2) of MATHEMATICS.md; with H alone,
        ``K = |V'HV| + damping V'V``, the absolute value in the metric ``V'V``.
        """
        gauss_newton, hessian = self.forms.gauss_newton, self.forms.hessian
        if gauss_newton is None:
            assert hessian is not None
            basis = orthonormal(self.gram)
            values, vectors = np.linalg.eigh(basis.T @ hessian @ basis)
            basis, curvature = basis @ vectors, np.abs(values) + damping
        else:
            basis = orthonormal(gauss_newton + damping * self.gram)
            curvature = np.ones(basis.shape[1])
            if hessian is not None:
                values, vectors = np.linalg.eigh(basis.T @ (hessian + damping * self.gram) @ basis)
                basis, curvature = basis @ vectors, np.maximum(np.abs(values), 1.0)
        along = -(basis.T @ self.slopes) / curvature
        change = -0.5 * float(along @ (curvature * along))
        step, lowest = basis @ along, np.empty(0)
        if hessian is not None:
            basis = orthonormal(self.gram)
            lowest = np.linalg.eigvalsh(basis.T @ hessian @ basis)
        return SubspaceStep(step, change, float(lowest[0]) if len(lowest) else float("nan"))

    @property
    def curvature(self) -> float:
        """Largest curvature per squared length along a direction, by either matrix."""
        known = [form for form in (self.forms.gauss_newton, self.forms.hessian) if form is not None]
        return max(float(np.max(np.abs(np.diag(form)) / np.diag(self.gram))) for form in known)


def orthonormal(metric: np.ndarray) -> np.ndarray:
    """Coefficients of vectors that are orthonormal in a metric and span what it does not null."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(metric), 1e-300))
    values, vectors = np.linalg.eigh(metric * scale[:, None] * scale)
    independent = values > DEPENDENT * values[-1]
    return np.asarray(scale[:, None] * vectors[:, independent] / np.sqrt(values[independent]))
