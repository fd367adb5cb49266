"""
A second clustering of the same rows
====================================

Rows that fall into groups in two ways.  Given one, KDAC finds the other and the directions in
which it shows.
"""

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from thalweg_clustering import KDAC, plot_views

random = np.random.default_rng(0)
shape, color = np.arange(200) // 2 % 2, np.arange(200) % 2
signs = 2 * np.stack([shape, color], axis=1) - 1
rows = np.hstack([3 * signs + random.normal(size=(200, 2)), random.uniform(-1, 1, (200, 2))])

model = KDAC(n_components=1, sigma=1.5, random_state=0).fit(rows, shape)
figure = plot_views(model, rows, shape)
assert normalized_mutual_info_score(model.labels_, color) > 0.9
print(f"overlap with the given clustering: {model.novelty_:.3f}")
