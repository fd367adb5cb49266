"""
A sheet unrolled
================

Laplacian eigenmaps and locally linear embedding are eigenproblems; points that were not fitted are
placed by Nyström's extension and by barycentric weights.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_swiss_roll

from thalweg_embedding import LaplacianEigenmaps, LocallyLinearEmbedding

points, along = make_swiss_roll(1000, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
for panel, model in zip(axes, (LaplacianEigenmaps(), LocallyLinearEmbedding()), strict=True):
    places = model.fit_transform(points[:900])
    panel.scatter(*places.T, c=along[:900], s=5)
    panel.scatter(*model.transform(points[900:]).T, c=along[900:], s=25, edgecolors="black")
    panel.set(title=type(model).__name__, xticks=[], yticks=[])
assert model.transform(points[900:]).shape == (100, 2)
