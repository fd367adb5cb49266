"""
A projection that loses no distance
===================================

The largest relative change of a squared distance, certified over all pairs, of a near-isometric
map, of principal directions and of a random projection with as many columns.
"""

import matplotlib.pyplot as plt
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits

from thalweg_isometry import JohnsonLindenstrauss, NearIsometricEmbedding, SecantPCA

images = load_digits().data[:250]
before = pdist(images, "sqeuclidean")
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
deltas = {}
for kind in (NearIsometricEmbedding, SecantPCA, JohnsonLindenstrauss):
    model = kind(n_components=12).fit(images)
    deltas[kind.__name__] = model.delta_
    ratios = pdist(model.transform(images), "sqeuclidean") / before
    axes.hist(ratios, bins=100, histtype="step", label=f"{kind.__name__}: {model.delta_:.2f}")
axes.set(xlabel="squared distance after the map over before", ylabel="pairs")
axes.legend()
assert min(deltas, key=deltas.get) == "NearIsometricEmbedding"
