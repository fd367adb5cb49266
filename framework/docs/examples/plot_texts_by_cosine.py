"""
Texts, without making them dense
================================

Counts of words as a sparse matrix, compared by the cosine.  Texts without words count as alike,
and as orthogonal to all others.
"""

import numpy as np
import scipy.sparse

from thalweg.workbench.report import draw_embedding
from thalweg_embedding import TSNE

random = np.random.default_rng(0)
topics = random.dirichlet(np.full(2000, 0.03), size=5)
topic = random.integers(5, size=400)
lengths = random.integers(20, 200, size=400)
counts = [random.multinomial(n, topics[t]) for n, t in zip(lengths, topic, strict=True)]
texts = scipy.sparse.csr_matrix(np.array([*counts, np.zeros(2000)], dtype=float))

model = TSNE(metric="cosine", perplexity=15, random_state=0).fit(texts)
print(*(note for note in model.notes_ if "orthogonal" in note))
labels = np.append(topic, 5)
names = [*(f"topic {number}" for number in range(5)), "empty"]
figure = draw_embedding(None, model.embedding_, labels, names, title="401 texts")
