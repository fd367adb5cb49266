"""Labels of new rows, from those that were clustered.

The embedding u(x) = sum_j k(x, x_j) u_j / sqrt(d(x) d_j lambda) of a new row, as the
Nystrom method extends eigenvectors, is a weighted mean of the rows of U.  Its last columns
divide by small eigenvalues, which amplifies noise; labels are therefore taken from the
same similarities directly: a row belongs to the cluster to whose rows its normalized
similarity is largest, and where the kernel sees no row at all, to that of the nearest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg_clustering.kernels import KernelFunction, squared_distances

#: Rows that are kept for predictions, and new rows that are treated at a time.
KEPT_ROWS, BLOCK = 20_000, 1024


@dataclass(frozen=True)
class Predictor:
    """What :meth:`labels` needs of a clustering.

    Attributes
    ----------
    z
        Projected rows in units of sigma, shape ``(m, q)``.
    degrees
        Their row sums, shape ``(m,)``.
    labels
        Their clusters, 0 to k - 1, shape ``(m,)``.
    function
        The kernel.
    """

    z: np.ndarray
    degrees: np.ndarray
    labels: np.ndarray
    function: KernelFunction

    def predict(self, z: np.ndarray) -> np.ndarray:
        """Clusters of new rows.

        Parameters
        ----------
        z
            Projected rows in units of sigma, shape ``(n, q)``.
        """
        found = np.empty(len(z), dtype=np.int64)
        clusters = int(self.labels.max()) + 1
        member = np.eye(clusters)[self.labels]
        if self.function.normalized:
            member = member / np.sqrt(self.degrees)[:, None]
        else:  # mean similarity: kernels of either sign have no sums that mean anything
            member = member / np.maximum(member.sum(axis=0), 1.0)
        for first in range(0, len(z), BLOCK):
            rows = z[first : first + BLOCK]
            similar = self.function.value(self.function.beta(rows, self.z))
            chosen = (similar @ member).argmax(axis=1)
            if self.function.normalized:
                lost = similar.max(axis=1) < 1e-200
                chosen[lost] = self.labels[squared_distances(rows[lost], self.z).argmin(axis=1)]
            found[first : first + BLOCK] = chosen
        return found
