"""Landmarks in place of the exact kernel, K = Z Z' of low rank: every sum is linear in n.

Nystrom (Williams and Seeger, 2001), for any positive definite kernel: with C the kernel of
rows and landmarks and A the regularized kernel of the landmarks, K = C A^(-1) C'.  With
P diag(s) P' the weights, F(W) = - sum_c s_c |Z'p_c|^2 is the minimum over b_c of
-sum_c s_c (2 p_c'C b_c - b_c'A b_c) for fixed signs s, attained at A b_c = C'p_c; its gradient is
hence that of two sums over pairs with b held fixed.
"""

import copy
from collections.abc import Callable

import numba
import numpy as np
import scipy.linalg

from thalweg.errors import InputError, NumericalError
from thalweg.parallel import Layout, on_root, sum_large
from thalweg_clustering.kernels import KernelFunction, symmetric
from thalweg_clustering.leading_subspace import Subspace
from thalweg_clustering.projected_kernel import DerivativeSums, PairWeights, ProjectedKernel


def _solved(root: np.ndarray, values: np.ndarray, transposed: bool = False) -> np.ndarray:
    """``R^(-1) V``, or ``R'^(-1) V``."""
    return scipy.linalg.solve_triangular(root, values, trans=int(transposed))


class NystromKernel(ProjectedKernel):
    """Any positive definite kernel by landmarks, rows drawn by the seed.

    With ``single``, a Gaussian kernel of rows and landmarks is computed in single precision.
    """

    #: Ridge of the landmarks' kernel, relative to its trace.
    RIDGE = 1e-8

    def __init__(
        self,
        layout: Layout,
        points: np.ndarray,
        sigma: float,
        function: KernelFunction,
        landmarks: int,
        seed: int,
        single: bool = False,
    ) -> None:
        if not function.positive:
            raise InputError(
                f"the Nystrom approximation needs a positive definite kernel, which {function.name}"
                " is not; use approximation 'exact'"
            )
        super().__init__(layout, points, sigma, function)
        self.seed, self.rounding = seed, 1e-6 if single and function.gaussian else 1e-9
        self.description = f"the Nystrom approximation with {min(landmarks, layout.rows)} landmarks"
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(landmarks,)))
        chosen = np.sort(stream.permutation(layout.rows)[: min(landmarks, layout.rows)])
        self.landmarks = layout.gather_some(points, chosen)
        self.size = len(self.landmarks)
        # Of the rows as they are, so that it does not change with W.
        own = np.einsum("ij,ij->i", self.landmarks, self.landmarks) / sigma**2
        diagonal = function.value(own if function.of == "product" else np.zeros_like(own))
        self.ridge = self.RIDGE * float(diagonal.sum())
        self._sums = DerivativeSums.of(layout, function, single)
        # Sums over landmarks alone have coefficients that cancel.
        self._landmark_sums = DerivativeSums.of(layout, function)

    def on_rows(self, layout: Layout, points: np.ndarray) -> "NystromKernel":
        """The same landmarks for other rows."""
        other = copy.copy(self)
        other.layout, other.points = layout, points
        return other

    def root(self, w: np.ndarray) -> np.ndarray:
        """R, upper triangular, with R'R the regularized kernel of the landmarks.

        It is applied to sums over rows, never to rows: that would take n m^2.
        """
        z = self.landmarks @ (w / self.sigma)
        kernel = self.function.value(self.function.beta(z, z))
        kernel[np.diag_indices_from(kernel)] += self.ridge

        def decomposed() -> np.ndarray:
            try:
                return np.asarray(scipy.linalg.cholesky(kernel))
            except scipy.linalg.LinAlgError as error:
                raise NumericalError(
                    f"the {self.function.name} kernel of the landmarks is not positive definite; "
                    "use approximation 'exact'"
                ) from error

        return np.asarray(on_root(self.layout.comm, decomposed))

    def _visit(self, w: np.ndarray, work: Callable[[int, slice, np.ndarray], None]) -> None:
        """``work(thread, rows, C)``, C the kernel of some own rows with the landmarks."""
        scaled = w / self.sigma
        self._sums.engines[0].visit_blocks(self.points @ scaled, self.landmarks @ scaled, work)

    def _sum(
        self, w: np.ndarray, shape: tuple[int, int], term: Callable[[slice, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """The sum of ``term(rows, C)``, of this shape, over blocks of this rank's rows."""
        totals = np.zeros((numba.get_num_threads(), *shape))

        def add(thread: int, rows: slice, c: np.ndarray) -> None:
            totals[thread] += term(rows, c)

        self._visit(w, add)
        return np.asarray(totals.sum(axis=0))

    def _image(self, w: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        """C times a matrix with a row for each landmark."""
        result = np.empty((len(self.points), matrix.shape[1]))

        def fill(thread: int, rows: slice, c: np.ndarray) -> None:
            result[rows] = c @ matrix.astype(c.dtype, copy=False)

        self._visit(w, fill)
        return result

    def _moments(self, w: np.ndarray, values: np.ndarray, root: np.ndarray) -> np.ndarray:
        """``Z'V`` over all ranks."""
        shape = self.size, values.shape[1]
        total = self._sum(w, shape, lambda rows, c: c.T @ values[rows].astype(c.dtype, copy=False))
        return _solved(root, sum_large(self.layout.comm, total), transposed=True)

    def value(self, w: np.ndarray, weights: PairWeights) -> float:
        return -float((self._moments(w, weights.factor, self.root(w)) ** 2 @ weights.signs).sum())

    def product(self, w: np.ndarray, values: np.ndarray) -> np.ndarray:
        root = self.root(w)
        return self._image(w, _solved(root, self._moments(w, values, root)))

    def row_sums(self, w: np.ndarray) -> np.ndarray:
        """Degrees of this rank's rows; at least k(0), that of the row itself."""
        least = float(self.function.value(np.zeros(1))[0]) if self.function.normalized else -np.inf
        return np.maximum(self.product(w, np.ones((len(self.points), 1)))[:, 0], least)

    def embedding(
        self, w: np.ndarray, degrees: np.ndarray, count: int, removed: np.ndarray
    ) -> Subspace:
        """The leading eigenvectors of B B', B = (I - R R') D^(-1/2) Z, from the small B'B.

        They are B v / |B v| for the eigenvectors v of B'B, which takes two passes over the rows,
        and one sum over ranks of the size of the features.  ``removed`` are this rank's rows of R,
        with orthonormal columns, the constant one among them.
        """
        scale = 1.0 / np.sqrt(degrees)
        root = self.root(w)

        def products(rows: slice, c: np.ndarray) -> np.ndarray:
            # R^(-1) on both sides multiplies rounding by up to 1e8 / m.
            weighted = c * scale[rows, None]
            return np.concatenate([weighted.T @ weighted, removed[rows].T @ weighted])

        sums = self._sum(w, (self.size + removed.shape[1], self.size), products)
        sum_large(self.layout.comm, sums)
        gram = _solved(root, _solved(root, sums[: self.size], True).T, True)
        inner = _solved(root, sums[self.size :].T, transposed=True).T
        gram -= inner.T @ inner
        span = [max(0, len(gram) - 1 - count), len(gram) - 1]
        values, vectors = on_root(
            self.layout.comm,
            lambda: scipy.linalg.eigh(symmetric(gram), subset_by_index=span, overwrite_a=True),
        )
        values, vectors = values[::-1], vectors[:, ::-1][:, :count]
        if vectors.shape[1] < count or values[count - 1] <= 0:
            raise NumericalError(
                f"the features span fewer than {count} independent directions; take more of them"
            )
        known = np.full(count + 1, np.nan)
        known[: len(values)] = values[: count + 1]
        result = scale[:, None] * self._image(w, _solved(root, vectors))
        result -= removed @ (inner @ vectors)
        return Subspace(result / np.sqrt(values[:count]), known)

    def _matrix_of_features(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        """F(W) and ``(2 / sigma^2) X'(D - psi) X``, with psi = gamma * K of the features.

        X' psi X = sum_c s_c B_c'B_c with B_c = Z' diag(p_c) X.
        """
        factor, signs, d = weights.factor, weights.signs, self.points.shape[1]
        rank = factor.shape[1]
        root = self.root(w)

        def spread_out(rows: slice, c: np.ndarray) -> np.ndarray:
            extended = np.column_stack([self.points[rows], np.ones(len(c))]).astype(c.dtype)
            spread = factor[rows].astype(c.dtype)[:, :, None] * extended[:, None, :]
            return np.asarray(c.T @ spread.reshape(len(c), -1))

        blocks = self._sum(w, (self.size, rank * (d + 1)), spread_out)
        moments = _solved(root, sum_large(self.layout.comm, blocks), transposed=True)
        moments = moments.reshape(self.size, rank, d + 1)
        sums = moments[:, :, -1]
        turned = _solved(root, sums)

        def scattered(rows: slice, c: np.ndarray) -> np.ndarray:
            signed = (factor[rows] * signs).astype(c.dtype)
            totals = np.einsum("ic,ic->i", signed, c @ turned.astype(c.dtype, copy=False))
            points = self.points[rows].astype(c.dtype, copy=False)
            return np.asarray((points.T * totals) @ points)

        scatter = self._sum(w, (d, d), scattered)
        sum_large(self.layout.comm, scatter)
        for column in range(rank):
            part = moments[:, column, :-1]
            scatter -= signs[column] * part.T @ part
        return -float((sums**2 @ signs).sum()), symmetric((2.0 / self.sigma**2) * scatter)

    def _product(
        self, w: np.ndarray, by: np.ndarray, points: np.ndarray, left: np.ndarray, b: np.ndarray
    ) -> np.ndarray:
        """``sum psi_il A_il V`` over these points and the landmarks, V = ``by``.

        A is the matrix of ``beta = Tr(W'A W)/2`` or of the inner product, times sigma^2, and
        psi the derivative of k times ``p_i'b_l``.
        """
        sums = self._sums if points is self.points else self._landmark_sums
        scaled = w / self.sigma
        own, other = sums.engines[1].sums_with(
            points @ scaled, self.landmarks @ scaled, points @ by, self.landmarks @ by, left, b
        )
        if self.function.of == "distance":
            own[:, :-1] = own[:, -1:] * (points @ by) - own[:, :-1]
            other[:, :-1] = other[:, -1:] * (self.landmarks @ by) - other[:, :-1]
        return sums.factors[1] * (points.T @ own[:, :-1] + self.landmarks.T @ other[:, :-1])

    def _product_with_phi(
        self, w: np.ndarray, by: np.ndarray, weights: PairWeights
    ) -> tuple[float, np.ndarray]:
        """F, and Phi for fixed coefficients b times ``by``."""
        root = self.root(w)
        moments = self._moments(w, weights.factor, root)
        b, value = _solved(root, moments), -float((moments**2 @ weights.signs).sum())
        signed = weights.factor * weights.signs
        total = sum_large(self.layout.comm, self._product(w, by, self.points, signed, b))
        own = self._product(w, by, self.landmarks, b * weights.signs, b)
        share = (2.0 if self.function.of == "distance" else 1.0) / self.sigma**2
        return value, share * (own - 2.0 * total)

    def value_and_gradient(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        return self._product_with_phi(w, w, weights)

    def value_and_matrix(self, w: np.ndarray, weights: PairWeights) -> tuple[float, np.ndarray]:
        # Across W the coefficients b multiply coordinates that are no function of the projected
        # ones, which amplifies noise; features do not have that where k' is a multiple of k.
        if self.function.gaussian:
            return self._matrix_of_features(w, weights)
        value, matrix = self._product_with_phi(w, np.eye(len(w)), weights)
        return value, symmetric(matrix)
