"""
A map in three dimensions
=========================

``n_components=3`` costs a little more than two: the sums over all pairs run on a mesh in space.
"""

from sklearn.datasets import load_digits

from thalweg.workbench.report import draw_embedding
from thalweg_embedding import TSNE

images, digits = load_digits(return_X_y=True)
images, digits = images[:600], digits[:600]
model = TSNE(n_components=3, random_state=0).fit(images)
figure = draw_embedding(None, model.embedding_, digits, title="600 images in space")
assert model.embedding_.shape == (600, 3)
