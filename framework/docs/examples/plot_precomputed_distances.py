"""
Distances of your own
=====================

With ``metric="precomputed"`` X holds distances: a square matrix, or a sparse one of those to the
nearest neighbors, as scikit-learn's ``kneighbors_graph`` makes it.
"""

from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from thalweg.workbench.report import draw_embedding
from thalweg_embedding import TSNE

images, digits = load_digits(return_X_y=True)
images, digits = images[:500], digits[:500]
graph = kneighbors_graph(images, 60, mode="distance", metric="manhattan")
graph = graph.maximum(graph.T)
model = TSNE(perplexity=20, metric="precomputed", random_state=0).fit(graph)
figure = draw_embedding(None, model.embedding_, digits, title="by distances along the axes")
