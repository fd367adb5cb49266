"""The probability that Gaussian maps change secants by more than delta, and its derivatives.

The function f of MATHEMATICS.md: entries of A are independent and normal, with means M and one
variance, and f is the expected number of secants that A does not keep, which bounds the
probability that it fails (Tsikouras, Caramanis and Tzamos 2024).
"""

import numpy as np
import scipy.special

from thalweg.engines.hessian import HessianProduct
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Array, Layout, sum_over_ranks
from thalweg_isometry.active import ActiveSecants

#: Least noncentrality: below it the density is that without any.
LEAST = 1e-8


class GaussianMaps(Objective, HessianProduct):
    """The function f of the means M, of a shape, which every rank has.

    ``delta``, in (0, 1), is the largest change of a squared length, and ``variance``, above 0, that
    of the entries; the secants have no weights.
    """

    def __init__(
        self, active: ActiveSecants, shape: tuple[int, int], delta: float, variance: float
    ) -> None:
        self._active = active
        self._ends = (1.0 - delta, 1.0 + delta)
        self._variance = variance
        self._at: tuple[bytes, tuple[Array, ...]] | None = None
        super().__init__(active.comm, Layout(MPI.COMM_SELF, *shape))

    def initial_point(self, seed: int) -> Array:
        """What this variance leaves of a random projection, of variance 1 / rank."""
        rank, dimension = self.layout.rows, self.layout.columns
        size = np.sqrt(max(0.0, 1.0 / rank - self._variance))
        random = np.random.default_rng((seed, rank))
        return size * random.standard_normal((rank, dimension))

    def value(self, x: Array) -> float:
        return self._total(self._terms(x)[1])

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        images, value, slope, _ = self._terms(x)
        gradient = 2.0 * self._active.adjoint_times(slope, images)
        return self._total(value), gradient

    def _total(self, values: np.ndarray) -> float:
        return float(sum_over_ranks(self.comm, float(values.sum())))

    def hessian_product(self, x: Array, direction: Array) -> Array:
        images, _, slope, curvature = self._terms(x)
        active = self._active
        moved = active.images(direction)
        # 2 (M v)'(D v), the change of ||M v||^2 along D.
        change = active.gains(images + moved) - active.gains(images) - active.gains(moved)
        product = 2.0 * active.adjoint_times(curvature * change, images)
        return product + 2.0 * active.adjoint_times(slope, moved)

    def _terms(self, x: Array) -> tuple[Array, ...]:
        """Images, and each secant's probability with its derivatives by ``||M v||^2``."""
        key = x.tobytes()
        if self._at is None or self._at[0] != key:
            images = self._active.images(x)
            squares = self._active.gains(images)
            below, above = (
                distribution(end, squares, self._variance, len(x)) for end in self._ends
            )
            value, slope, curvature = (b - a for b, a in zip(below, above, strict=True))
            self._at = (key, (images, 1.0 + value, slope, curvature))
        return self._at[1]


def distribution(
    end: float, squares: np.ndarray, variance: float, rank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probability that ``||A v||^2 <= end``; its first and second derivatives by ``||M v||^2``.

    ``squares`` are ``||M v||^2`` of each secant, shape ``(m,)``; A has ``rank`` rows.
    """
    x = end / variance
    c = np.maximum(squares / variance, LEAST)
    # By the noncentrality, the distribution falls by the density of two more degrees.
    first, second = (density(x, c, rank + more) for more in (2, 4))
    slope, curvature = -first / variance, -0.5 * (second - first) / variance**2
    return scipy.special.chndtr(x, rank, c), slope, curvature


def density(x: float, noncentrality: np.ndarray, degrees: int) -> np.ndarray:
    """Density of the noncentral chi-squared distribution, for a positive noncentrality."""
    order = 0.5 * degrees - 1.0
    root = np.sqrt(noncentrality)
    bessel = scipy.special.ive(order, np.sqrt(x) * root)
    with np.errstate(divide="ignore"):
        logarithm = np.log(bessel) + order * np.log(np.sqrt(x) / root)
    return np.asarray(0.5 * np.exp(logarithm - 0.5 * (np.sqrt(x) - root) ** 2))
