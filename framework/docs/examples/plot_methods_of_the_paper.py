"""
Six ways to the same minimum
============================

Partial-Hessian methods for embeddings (Vladymyrov and Carreira-Perpiñán 2012): gradient descent,
the fixed point, the diagonal Hessian, the spectral direction, and L-BFGS with and without it.
"""

from sklearn.datasets import load_digits

import thalweg
from thalweg.workbench.report import draw_convergence
from thalweg_embedding import ELASTIC_EMBEDDING, embedding

points = thalweg.Dataset.from_array(load_digits().data[:300])
methods = {
    "gradient descent": ("gradient-descent", "identity"),
    "fixed point": ("gradient-descent", "fixed-point"),
    "diagonal Hessian": ("gradient-descent", "hessian-diagonal"),
    "spectral direction": ("gradient-descent", "spectral"),
    "L-BFGS": ("lbfgs", "identity"),
    "L-BFGS, spectral": ("lbfgs", "spectral"),
}
traces = {}
for name, (solver, preconditioner) in methods.items():
    objective = embedding(ELASTIC_EMBEDDING, points, perplexity=20, lambda_=100.0)
    result = thalweg.minimize(
        objective, solver=solver, preconditioner=preconditioner, seed=1, iterations=60
    )
    traces[name] = result.trace
figure = draw_convergence(None, traces)
assert traces["spectral direction"]["objective"][-1] < traces["gradient descent"]["objective"][-1]
