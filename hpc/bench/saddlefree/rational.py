"""|H| by a rational function: few shifted systems that share one Krylov recurrence.

Hale, Higham and Trefethen (2008), "Computing A^alpha, log(A), and related matrix
functions by contour integrals", section 4 (their method 3), give weights and
shifts with

    A^(-1/2)  ~  sum_j w_j (A + t_j^2 I)^(-1),     A = H^2 + damping^2 I,

whose error falls geometrically with the number of nodes.  Every term is
``Im (H - i s_j)^(-1) / s_j`` with ``s_j^2 = t_j^2 + damping^2``: complex shifts
of the *real* Lanczos recurrence of H.  Shifted MINRES (Paige and Saunders, with
complex rotations) carries all of them along for one product a step, without
squaring the matrix and without storing a basis.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.special import ellipj, ellipk

from thalweg.parallel import agreed
from thalweg_saddlefree.curvature.absolute import AbsoluteSolver, AbsoluteStep, refuse_singular
from thalweg_saddlefree.curvature.basis import LanczosBasis
from thalweg_saddlefree.curvature.ode import SpectrumTooWide
from thalweg_saddlefree.curvature.operator import refuse_asymmetry

#: Steps whose vectors are kept until the spectrum is bounded; then they are replayed.
LEAD_STEPS = 24

#: Factor by which the smallest singular value may be below its first estimate.
MARGIN = 30.0


def inverse_root_nodes(smallest: float, largest: float, count: int) -> tuple[np.ndarray, ...]:
    """Weights ``w`` and shifts ``t`` with ``a^(-1/2) ~ sum w / (a + t^2)`` on an interval.

    The interval ends at ``0 < smallest < largest``.  Both have shape ``(count,)`` and are positive,
    and the shifts ascend.
    """
    parameter = 1.0 - smallest / largest
    quarter = ellipk(parameter)
    points = (np.arange(count) + 0.5) * quarter / count
    sn, cn, dn, _ = ellipj(points, parameter)
    # Jacobi's imaginary transformation takes the functions to the imaginary axis.
    shifts = np.sqrt(smallest) * sn / cn
    weights = 2.0 * quarter * np.sqrt(smallest) / (np.pi * count) * dn / cn**2
    return weights, shifts


def nodes_for(smallest: float, largest: float, tolerance: float) -> tuple[np.ndarray, ...]:
    """The fewest nodes whose relative error on the interval is below ``tolerance``."""
    probe = np.geomspace(smallest, largest, 400)
    for count in range(2, 80):
        weights, shifts = inverse_root_nodes(smallest, largest, count)
        value = (weights / (probe[:, None] + shifts**2)).sum(axis=1)
        if np.abs(value * np.sqrt(probe) - 1.0).max() <= tolerance:
            return weights, shifts
    raise SpectrumTooWide("the spectrum is too wide for rational approximation; raise the damping")


class ShiftedMinres:
    """MINRES for ``(H - i s) y = g``, all shifts s > 0 at once, on one real recurrence.

    ``right_norm`` is the norm of g, ``local_size`` the length of this rank's slices.
    """

    def __init__(self, shifts: np.ndarray, right_norm: float, local_size: int) -> None:
        count = len(shifts)
        self.shifts = shifts
        self.solution = np.zeros((count, local_size))  # imaginary part of y
        self._d1 = np.zeros((count, local_size), dtype=complex)
        self._d2 = np.zeros((count, local_size), dtype=complex)
        self._left = np.full(count, right_norm, dtype=complex)
        self._c1, self._c2 = np.ones(count), np.ones(count)
        self._s1, self._s2 = np.zeros(count, dtype=complex), np.zeros(count, dtype=complex)
        self._beta = 0.0
        self.active = np.ones(count, dtype=bool)

    @property
    def residuals(self) -> np.ndarray:
        """Residual norms, shape ``(count,)``."""
        return np.abs(self._left)

    def advance(self, vector: np.ndarray, alpha: float, beta: float) -> None:
        """Take in one Lanczos step: its vector, diagonal and next off-diagonal entry."""
        on = self.active
        beta_left = self._beta
        c1, c2, s1, s2 = self._c1[on], self._c2[on], self._s1[on], self._s2[on]
        third = s2 * beta_left
        middle = c2 * beta_left
        center = alpha - 1j * self.shifts[on]
        second = c1 * middle + s1 * center
        rest = -np.conj(s1) * middle + c1 * center
        length = np.sqrt(np.abs(rest) ** 2 + beta**2)
        phase = rest / np.abs(rest)
        cosine, sine = np.abs(rest) / length, phase * beta / length
        first = phase * length
        fresh = vector - second[:, None] * self._d1[on] - third[:, None] * self._d2[on]
        fresh /= first[:, None]
        self.solution[on] += ((cosine * self._left[on])[:, None] * fresh).imag
        self._d2[on] = self._d1[on]
        self._d1[on] = fresh
        self._left[on] *= -np.conj(sine)
        self._c2[on], self._s2[on] = c1, s1
        self._c1[on], self._s1[on] = cosine, sine
        self._beta = beta


class RationalAbsolute(AbsoluteSolver):
    """Steps from shifted solves; memory does not grow with the number of products."""

    def direction(self, damping: float) -> AbsoluteStep:
        """The step at this damping."""
        margin = MARGIN
        while True:
            found = self._attempt(damping, margin)
            if found is not None:
                return found
            margin *= 100.0  # the spectrum reached below what the nodes had been chosen for

    def _attempt(self, damping: float, margin: float) -> AbsoluteStep | None:
        lead = LanczosBasis(self.slices, self.gradient)
        self.steps += lead.extend_to(min(LEAD_STEPS, self.limit), self.product)
        sigma = agreed(self.slices.comm, scipy.linalg.svdvals(lead.tridiagonal()))
        if lead.complete:
            refuse_singular(float(sigma[-1]), float(sigma[0]), damping)
        norm = float(sigma[0]) + lead.off_diagonal[-1]
        floor = float(sigma[-1]) / (2.0 if lead.complete else margin)
        smallest = max(floor, 1e-9 * norm) ** 2 + damping**2
        weights, nodes = nodes_for(smallest, norm**2 + damping**2, 0.1 * self.tolerance)
        shifts = np.sqrt(nodes**2 + damping**2)
        minres = ShiftedMinres(shifts, self.gradient_norm, self.slices.local_size)
        for k in range(len(lead)):
            minres.advance(lead.vector(k), lead.diagonal[k], lead.off_diagonal[k])
        diagonal, off = list(lead.diagonal), list(lead.off_diagonal)
        error = self._error(minres, weights, sigma[-1])
        if not lead.complete:
            m = len(lead)
            previous, current = lead.vector(m - 1).copy(), lead.vector(m).copy()
            del lead
            while error > self.tolerance and len(diagonal) < self.limit:
                image = self.product(current)
                inner = self.slices.total(np.array([current @ image, previous @ image]))
                refuse_asymmetry(abs(float(inner[1]) - off[-1]) / norm, image.dtype)
                image = image - inner[0] * current - off[-1] * previous
                left = self.slices.norm(image)
                self.steps += 1
                diagonal.append(float(inner[0]))
                off.append(left)
                minres.advance(current, float(inner[0]), left)
                if left <= 1e-13 * norm:
                    error = 0.0
                    break
                previous, current = current, image / left
                if len(diagonal) % 8 == 0:
                    sigma = agreed(self.slices.comm, _singular_values(diagonal, off))
                error = self._error(minres, weights, sigma[-1])
            sigma = agreed(self.slices.comm, _singular_values(diagonal, off))
            if sigma[-1] ** 2 + damping**2 < 0.9 * smallest and error <= self.tolerance:
                return None
        else:
            error = 0.0
        values = scipy.linalg.eigvalsh_tridiagonal(diagonal, off[:-1])
        self.lowest = float(values[0])
        step = -((weights / shifts) @ minres.solution)
        return AbsoluteStep(step, self.model_along(step), error)

    def _error(self, minres: ShiftedMinres, weights: np.ndarray, smallest: float) -> float:
        """Bound on the relative error by the residuals; deactivates shifts that are solved."""
        shifts = minres.shifts
        size = max(self.slices.norm((weights / shifts) @ minres.solution), 1e-300)
        share = weights / shifts * minres.residuals / np.hypot(smallest, shifts) / size
        minres.active &= share > 1e-3 * self.tolerance / len(shifts)
        return float(share.sum())


def _singular_values(diagonal: list[float], off: list[float]) -> np.ndarray:
    m = len(diagonal)
    band = np.zeros((3, m))  # T'T has two off-diagonals
    a, b = np.asarray(diagonal), np.asarray(off)
    band[0] = a**2 + b**2
    band[0, 1:] += b[:-1] ** 2
    band[1, :-1] = b[:-1] * (a[:-1] + a[1:])
    band[2, :-2] = b[:-2] * b[1:-1]
    values = scipy.linalg.eigvals_banded(band, lower=True)
    return np.sqrt(np.maximum(values[::-1], 0.0))
