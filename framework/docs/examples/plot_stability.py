"""
Which points can be trusted?
============================

``faithfulness`` tells of each point how many of its neighbors the map keeps, and how far it would
move if its data were a little different.  Places of whole clusters are mostly chance.
"""

import numpy as np
from sklearn.datasets import load_digits

from thalweg.workbench.report import draw_embedding
from thalweg_embedding import TSNE

images = load_digits().data[:400]
model = TSNE(random_state=0).fit(images)
measures = model.faithfulness()
kept = np.digitize(measures["kept"], [0.4, 0.6, 0.8])
names = ["less than 0.4", "0.4", "0.6", "0.8 and more"]
figure = draw_embedding(None, model.embedding_, kept, names, title="share of neighbors kept")
far = measures["perturbation"] > 10.0 * np.median(measures["perturbation"])
print(f"{far.sum()} of 400 points would jump if their data were a little different")
assert measures["kept"].mean() > 0.7
