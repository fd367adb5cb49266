"""Symmetric SNE as a scikit-learn estimator."""

from thalweg_embedding.estimators.tsne import TSNE
from thalweg_embedding.objectives import SYMMETRIC_SNE


class SymmetricSNE(TSNE):
    """Symmetric SNE: t-SNE's problem with a Gaussian kernel in the map.

    Parameters and attributes are those of :class:`TSNE`.
    """

    family = SYMMETRIC_SNE
