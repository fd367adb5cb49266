"""
A map that grows
================

New rows get a place in a finished map by ``transform``; ``partial_fit`` adds them to it and goes
on, while the points that were there stay where they are, nearly.
"""

import numpy as np
from sklearn.datasets import load_digits

from thalweg.workbench.report import draw_embedding
from thalweg_embedding import TSNE

images, digits = load_digits(return_X_y=True)
model = TSNE(random_state=0).fit(images[:400])
placed = model.transform(images[400:500])
nearest = ((placed[:, None] - model.embedding_) ** 2).sum(axis=2).argmin(axis=1)
assert (digits[:400][nearest] == digits[400:500]).mean() > 0.85  # near their own class
model.partial_fit(images[400:500])
is_new = (np.arange(500) >= 400).astype(int)
figure = draw_embedding(None, model.embedding_, is_new, ["old", "new"], title="100 rows more")
assert model.embedding_.shape == (500, 2)
