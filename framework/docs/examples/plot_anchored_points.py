"""
Anchored points
===============

A map some of whose points have places of their own: one image of each digit, on a circle.
"""

import numpy as np
from sklearn.datasets import load_digits

from thalweg.workbench.report import draw_embedding
from thalweg_embedding import TSNE

images, digits = load_digits(return_X_y=True)
rows = np.unique(digits, return_index=True)[1]
angles = 2.0 * np.pi * np.arange(10) / 10
circle = 60.0 * np.column_stack([np.cos(angles), np.sin(angles)])
model = TSNE(anchors=dict(zip(rows, circle, strict=True)), random_state=0).fit(images)
figure = draw_embedding(None, model.embedding_, digits, title="Ten images are anchored")
assert np.array_equal(model.embedding_[rows], circle)
