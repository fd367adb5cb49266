"""The secants that a solver works with, as pairs of points.

For a map Psi with images ``y_i = Psi x_i`` the squared length of secant k = (i, j)
becomes ``rho_k = ||y_i - y_j||^2 / ||x_i - x_j||^2``.  A sum ``sum_k c_k v_k v_k^T`` is ``X^T L X``
with L the Laplacian of the graph whose edges are the secants, so that a gradient costs two products
with the touched points, however many secants there are.  Each secant is with a rank that owns one
of its points; images of the others come from their owners, and their sums go back to them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from thalweg.engines.secants import SecantSet, SparseRows, row_blocks
from thalweg.parallel import (
    Layout,
    RowRoutes,
    max_over_ranks,
    min_over_ranks,
    sum_large,
    sum_over_ranks,
    swap_rows,
)
from thalweg_isometry import active_kernels as kernels

#: Share of the points at secants with a weight up to which only they are multiplied; by hand.
FEW = 0.4

#: Secants that products work with at a time.
BLOCK = 4096

#: Numbers above which the points are kept in single precision; chosen by hand.
LARGE = 500_000


def holders(layout: Layout, pairs: np.ndarray) -> np.ndarray:
    """Rank that keeps each secant: the owner of its first point, or of its second, half of each."""
    return layout.owners(np.where(pairs.sum(axis=1) % 2, pairs[:, 0], pairs[:, 1]))


def differences(
    secants: SecantSet, pairs: np.ndarray, center: np.ndarray | float = 0.0
) -> Iterator[tuple[slice, np.ndarray]]:
    """Which of this rank's pairs, and the differences of their points about a center, float64.

    Collective; ``pairs`` are global numbers, shape ``(m, 2)``.
    """
    numbers, ends = np.unique(pairs, return_inverse=True)
    routes = RowRoutes(secants.comm, secants.layout.owners(numbers))
    asked = routes.deliver(numbers) - secants.layout.start
    points = routes.give_back(np.asarray(secants.points[asked], dtype=float)) - center
    ends = ends.reshape(pairs.shape)
    for first in range(0, len(pairs), BLOCK):
        part = slice(first, first + BLOCK)
        yield part, points[ends[part, 0]] - points[ends[part, 1]]


def measured(secants: SecantSet, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those of this rank's pairs whose points differ, and their squared lengths.  Collective."""
    lengths = np.empty(len(pairs))
    for part, difference in differences(secants, pairs):
        lengths[part] = np.einsum("ij,ij->i", difference, difference)
    distinct = lengths > 0.0
    return np.sort(pairs[distinct], axis=1), lengths[distinct]


@dataclass(frozen=True)
class _Part:
    """This rank's secants whose other points one rank owns."""

    #: That rank, and the one to which this rank's images go meanwhile.
    owner: int
    taker: int
    numbers: Any  # which of this rank's secants
    #: This rank's touched points at their ends, and those that ``taker`` needs.
    own: Any
    sent: np.ndarray
    others: int  # how many points of ``owner`` they end at
    #: Ends of the secants, counted among ``own`` and then those of ``owner``; and the same by
    #: points.
    first: np.ndarray
    second: np.ndarray
    incidence: tuple[np.ndarray, np.ndarray, np.ndarray]


class ActiveSecants:
    """Secants given by pairs of global point numbers, shared out over the ranks.

    Every rank keeps its secants, and the touched points that it owns.  All methods are
    collective; arrays with an entry for each secant are those of this rank's.  ``pairs``, shape
    ``(m, 2)``, are where :func:`holders` puts them, ``lengths`` are ``||x_i - x_j||^2 > 0``,
    shape ``(m,)``; if ``exact``, points are in double precision however many there are.  ``count``
    and ``touched`` are the numbers of secants and touched points on all ranks.
    """

    def __init__(
        self, secants: SecantSet, pairs: np.ndarray, lengths: np.ndarray, exact: bool = False
    ) -> None:
        self.comm = comm = secants.comm
        layout = secants.layout
        self.lengths = np.asarray(lengths, dtype=float)
        self.weights = secants.weights_of(pairs)
        #: Distribution of the secants.
        self.layout = Layout(comm, int(sum_over_ranks(comm, len(pairs))), local_rows=len(pairs))
        self.count = self.layout.rows
        start, rank = layout.start, comm.rank
        own, other = pairs.T
        swapped = (own < start) | (own >= layout.stop)
        if swapped.any():  # the point of this rank first
            own, other = np.where(swapped, other, own), np.where(swapped, own, other)
        owners = layout.owners(other) if comm.size > 1 else np.zeros(len(other), dtype=np.int8)
        ghosts = np.unique(other[owners != rank])
        routes = RowRoutes(comm, layout.owners(ghosts))
        asked = routes.deliver(ghosts) - start
        used = np.zeros(layout.local_rows, dtype=bool)
        for ends in (own - start, other[owners == rank] - start, asked):
            used[ends] = True
        numbers, place = np.flatnonzero(used), np.cumsum(used) - 1
        self.touched = int(sum_over_ranks(comm, len(numbers)))
        #: This rank's touched points: centered, or sparse as they are.
        self.points: Any
        if isinstance(secants.points, SparseRows):
            rows = secants.points.part(numbers)
            places = rows.packed[:, : rows.packed.shape[1] // 2].astype(np.int64)
            filled = places < rows.dimension
            starts = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
            entries = (rows.entries[filled], places[filled], starts)
            self.points = scipy.sparse.csr_matrix(entries, rows.shape)
        else:
            scale = float(sum_over_ranks(comm, float(self.lengths.sum()))) / max(1, self.count)
            least = min_over_ranks(comm, float(self.lengths.min(initial=np.inf)))
            # Single precision would spoil secants that are much shorter than the others.
            single = self.touched * secants.dimension > LARGE and least > 1e-4 * scale and not exact
            shape = len(numbers), secants.dimension
            self.points = np.empty(shape, dtype=np.float32 if single else np.float64)
            for block in row_blocks(*shape):
                self.points[block] = secants.points[numbers[block]] - secants.mean
        sent = np.split(place[asked], np.cumsum(routes.received)[:-1])
        self._parts = []
        for step in range(comm.size):
            owner, taker = (rank + step) % comm.size, (rank - step) % comm.size
            here: Any = np.flatnonzero(owners == owner) if comm.size > 1 else slice(None)
            nodes: Any = slice(None)
            if step == 0:
                first, second = place[own[here] - start], place[other[here] - start]
                count, others = len(numbers), 0
            else:
                nodes, first = np.unique(place[own[here] - start], return_inverse=True)
                theirs, second = np.unique(other[here], return_inverse=True)
                count, others = len(nodes), len(theirs)
                second += count
            ends = kernels.incidence(first, second, count + others)
            part = _Part(owner, taker, here, nodes, sent[taker], others, first, second, ends)
            self._parts.append(part)

    @classmethod
    def listed(cls, secants: SecantSet) -> "ActiveSecants":
        """All listed pairs of points that differ, in double precision.  Collective."""
        assert secants.listed is not None
        layout, pairs = secants.layout, secants.listed.own
        pairs = RowRoutes(layout.comm, holders(layout, pairs)).deliver(pairs)
        return cls(secants, *measured(secants, pairs), exact=True)

    # -- numbers of all secants ------------------------------------------------------------

    def dot(self, a: np.ndarray, b: np.ndarray) -> float:
        """Inner product of arrays with an entry for each secant."""
        return float(sum_over_ranks(self.comm, float(a @ b)))

    def norm(self, a: np.ndarray) -> float:
        """Euclidean norm of an array with an entry for each secant."""
        return float(np.sqrt(self.dot(a, a)))

    def largest(self, a: np.ndarray) -> float:
        """Largest absolute value of an array with an entry for each secant; 0 of none."""
        return max_over_ranks(self.comm, float(np.abs(a).max(initial=0.0)))

    def delta(self, psi: np.ndarray) -> float:
        """Largest relative change of a secant's squared length by a map."""
        return self.largest(self.ratios(self.images(psi)) - 1.0)

    # -- products --------------------------------------------------------------------------

    def images(self, psi: np.ndarray) -> np.ndarray:
        """Images of this rank's touched points, shape ``(n, rank)``."""
        return np.asarray(self.points @ np.ascontiguousarray(psi.T, dtype=self.points.dtype))

    def _visited(self, images: np.ndarray) -> Iterator[tuple[_Part, np.ndarray]]:
        """The parts, each with the images of its points."""
        for part in self._parts:
            if part.owner == self.comm.rank:
                yield part, images
            else:
                others = np.empty((part.others, images.shape[1]), images.dtype)
                swap_rows(self.comm, images[part.sent], part.taker, others, part.owner)
                yield part, np.concatenate([images[part.own], others])

    def _gains(self, part: _Part, images: np.ndarray) -> np.ndarray:
        gains = kernels.image_lengths(images, part.first, part.second)
        gains /= self.lengths[part.numbers]
        return gains if self.weights is None else gains * self.weights[part.numbers]

    def gains(self, images: np.ndarray) -> np.ndarray:
        """``A(Psi^T Psi)``: rho of every secant, shape ``(m,)``, times its weight w."""
        gains = np.empty(len(self.lengths))
        for part, there in self._visited(images):
            gains[part.numbers] = self._gains(part, there)
        return gains

    def ratios(self, images: np.ndarray) -> np.ndarray:
        """Rho of every secant, shape ``(m,)``; with a weight w, ``1 + w (rho - 1)``."""
        gains = self.gains(images)
        return gains if self.weights is None else gains + (1.0 - self.weights)

    def adjoint_times(self, weights: np.ndarray, images: np.ndarray) -> np.ndarray:
        """``Psi A*(w) = sum_k w_k (Psi v_k) v_k^T``, shape ``(rank, dimension)``, float64.

        The secants' own weights are factors of w.
        """
        return self._adjoint(images, lambda part, there: weights[part.numbers])

    def ratios_and_adjoint(
        self, weigh: Callable[[np.ndarray], np.ndarray], images: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`ratios`, and :meth:`adjoint_times` with weights made of each, in one exchange."""
        ratios = np.empty(len(self.lengths))

        def weights(part: _Part, there: np.ndarray) -> np.ndarray:
            here = self._gains(part, there)
            if self.weights is not None:
                here += 1.0 - self.weights[part.numbers]
            ratios[part.numbers] = here
            return weigh(here)

        return ratios, self._adjoint(images, weights)

    def _adjoint(
        self, images: np.ndarray, weights: Callable[[_Part, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        product = np.zeros_like(images)
        for part, there in self._visited(images):
            factors = weights(part, there) / self.lengths[part.numbers]
            if self.weights is not None:
                factors = factors * self.weights[part.numbers]
            sums = kernels.laplacian_times(there, part.incidence, factors.astype(images.dtype))
            count = len(there) - part.others
            product[part.own] += sums[:count]
            if part.owner != self.comm.rank:
                returned = np.empty((len(part.sent), images.shape[1]), images.dtype)
                swap_rows(self.comm, sums[count:], part.owner, returned, part.taker)
                product[part.sent] += returned
        points, rows = self.points, np.flatnonzero(product.any(axis=1))
        if len(rows) < FEW * len(product):
            points, product = points[rows], product[rows]
        if scipy.sparse.issparse(points):  # not centered: the rows of the product sum to zero
            return sum_large(self.comm, np.ascontiguousarray((points.T @ product).T))
        return sum_large(self.comm, (product.T @ points).astype(np.float64))


def misses(change: np.ndarray, theta: float) -> np.ndarray:
    """By how much changes of squared lengths exceed theta, with their signs."""
    return np.asarray(np.sign(change) * np.maximum(np.abs(change) - theta, 0.0))


def hinge_value(active: ActiveSecants, psi: np.ndarray, theta: float) -> float:
    """Half of ``sum_k max(0, |rho_k - 1| - theta)^2``."""
    miss = misses(active.ratios(active.images(psi)) - 1.0, theta)
    return 0.5 * active.dot(miss, miss)


def hinge(active: ActiveSecants, psi: np.ndarray, theta: float) -> tuple[float, np.ndarray, float]:
    """Half the squared hinge, its gradient, and the largest distortion."""
    images = active.images(psi)
    ratios, adjoint = active.ratios_and_adjoint(lambda rho: misses(rho - 1.0, theta), images)
    change = ratios - 1.0
    miss = misses(change, theta)
    return 0.5 * active.dot(miss, miss), 2.0 * adjoint, active.largest(change)
