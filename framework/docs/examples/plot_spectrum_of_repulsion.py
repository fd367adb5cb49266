"""
From fine clusters to a continuous shape
========================================

Less repulsion leads from t-SNE's clusters through maps like UMAP's to Laplacian eigenmaps
(Boehm, Berens and Kobak 2022).
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from thalweg_embedding import TSNE

images, digits = load_digits(n_class=6, return_X_y=True)
images, digits = images[:500], digits[:500]

figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
sizes = []
for panel, weight in zip(axes, (1.0, 0.25, 1 / 30), strict=True):
    places = TSNE(lambda_=weight, random_state=0).fit_transform(images)
    panel.scatter(*places.T, c=digits, s=4, cmap="tab10")
    panel.set(title=f"lambda_ = {weight:.3g}", xticks=[], yticks=[], aspect="equal")
    sizes.append(places.std())
assert sizes[0] > sizes[1] > sizes[2]
