"""
An embedding of your own
========================

Two functions of the squared distance d, one that attracts and one that repels, each with its first
two derivatives, make an embedding that all preconditioners and solvers take.
"""

import numpy as np
from sklearn.datasets import load_digits

import thalweg
from thalweg.workbench.report import draw_embedding
from thalweg_embedding import Family, PairFunction, embedding

attraction = PairFunction(lambda d: (d / (1 + d), 1 / (1 + d) ** 2, -2 / (1 + d) ** 3), "d/(1 + d)")
repulsion = PairFunction(lambda d: (np.exp(-d), -np.exp(-d), np.exp(-d)), "exp(-d)")
family = Family("mine", attraction, repulsion, normalized=True)

images, digits = load_digits(return_X_y=True)
images, digits = images[:400], digits[:400]
objective = embedding(family, thalweg.Dataset.from_array(images), perplexity=20)
result = thalweg.minimize(objective, solver="lbfgs", preconditioner="spectral", iterations=100)
print(result)
figure = draw_embedding(None, result.x, digits, title=f"{attraction.name} against {repulsion.name}")
assert result.objective < result.trace["objective"][0]
