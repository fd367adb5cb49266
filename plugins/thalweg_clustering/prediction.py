"""Labels of new rows, from those that were clustered.

The embedding is extended as the Nystrom method extends eigenvectors (MATHEMATICS.md).  The label is
that of the nearest center of k-means; of a row more like one row than like all others together,
that of the one.  For kernels that are not normalized, and where clustered rows would not get their
labels, it is that of the nearest row; and of rows that are less like those clustered than nearly
all of these are, whose extension vanishes beside the mean.
"""

from dataclasses import dataclass, replace

import numpy as np

from thalweg.numerics import squared_distances, unit_rows
from thalweg_clustering.kernels import KernelFunction

#: Rows that are kept for predictions, and new rows that are treated at a time.
KEPT_ROWS, BLOCK = 20_000, 1024

#: Share of the clustered rows that are less like the others than any new row that is not far away.
OUTER = 0.01

#: Eigenvalue, relative to the largest, from which on a column of U is extended.
MIN_VALUE = 1e-4


@dataclass(frozen=True)
class LabelPredictor:
    """Data of a clustering that :meth:`predict` uses."""

    z: np.ndarray  # projected rows in units of sigma, shape ``(m, q)``
    labels: np.ndarray  # their clusters, 0 to k - 1, shape ``(m,)``
    weights: np.ndarray  # columns of U over roots of degrees and eigenvalues, shape ``(m, c)``
    mean: np.ndarray  # mean of the columns' extensions, which is subtracted, shape ``(c,)``
    centers: np.ndarray  # of k-means, shape ``(k, c)``
    divided: bool  # whether the extension is divided by the roots of the new rows' degrees
    function: KernelFunction | None  # the kernel; None takes the label of the nearest row
    least: float = 0.0  # sum of similarities below which a new row is far away

    @classmethod
    def of(
        cls,
        z: np.ndarray,
        labels: np.ndarray,
        embedding: np.ndarray,
        values: np.ndarray,
        degrees: np.ndarray | None,
        function: KernelFunction | None,
    ) -> "LabelPredictor":
        """From rows that were clustered: U with its eigenvalues, and degrees if U has D."""
        members = np.eye(int(labels.max()) + 1)[labels]
        members /= np.maximum(members.sum(axis=0), 1.0)
        by_nearest = cls(z, labels, members, np.zeros(0), np.zeros((0, 0)), False, None)
        if function is None or not function.normalized:
            return by_nearest
        shown = values > MIN_VALUE * values[0]
        divided = degrees is not None
        weights = embedding[:, shown] / values[shown]
        if degrees is not None:
            weights /= np.sqrt(degrees)[:, None]
        centers = members.T @ unit_rows(embedding[:, shown])
        plain = cls(z, labels, weights, np.zeros(shown.sum()), centers, divided, function)
        # U is centered: what its rows exceed it by is the mean.
        sample = np.unique(np.linspace(0, len(z) - 1, BLOCK).astype(int))
        similar = plain.similarity(z[sample])
        mean = (plain.extended(similar) - embedding[sample][:, shown]).mean(axis=0)
        extending = replace(plain, mean=mean, least=float(np.quantile(similar.sum(axis=1), OUTER)))
        return extending if (extending.predict(z[sample]) == labels[sample]).all() else by_nearest

    def similarity(self, z: np.ndarray) -> np.ndarray:
        """Of new rows to those kept."""
        assert self.function is not None
        return self.function.value(self.function.beta(z, self.z))

    def extended(self, similar: np.ndarray) -> np.ndarray:
        """U of new rows."""
        embedding = similar @ self.weights
        if self.divided:
            embedding /= np.sqrt(np.maximum(similar.sum(axis=1), 1e-300))[:, None]
        return np.asarray(embedding - self.mean)

    def predict(self, z: np.ndarray) -> np.ndarray:
        """Clusters of new rows, projected and in units of sigma, shape ``(n, q)``."""
        labels = np.empty(len(z), dtype=np.int64)
        for first in range(0, len(z), BLOCK):
            rows = z[first : first + BLOCK]
            lost = np.ones(len(rows), bool)  # the kernel sees no row, or one: the nearest decides
            chosen = np.zeros(len(rows), dtype=np.int64)
            if self.function is not None:
                similar = self.similarity(rows)
                extended, total = unit_rows(self.extended(similar)), similar.sum(axis=1)
                lost = (total < self.least) | (2.0 * similar.max(axis=1) > total)
                chosen = squared_distances(extended, self.centers).argmin(axis=1)
            if lost.any():
                chosen[lost] = self.labels[squared_distances(rows[lost], self.z).argmin(axis=1)]
            labels[first : first + BLOCK] = chosen
        return labels
