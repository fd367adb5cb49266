"""
A map of images
===============

t-SNE of images of digits, with the name of each class on the map.
"""

from sklearn.datasets import load_digits

from thalweg.workbench.report import draw_embedding
from thalweg_embedding import TSNE, map_quality

images, digits = load_digits(return_X_y=True)
model = TSNE(random_state=0).fit(images)
figure = draw_embedding(None, model.embedding_, digits, title="1,797 images of digits")

# %%
# The divergence is the value of t-SNE's objective over all pairs.  Recall is the share of the
# fifteen nearest neighbors that the map keeps.
quality = map_quality(images, model.embedding_, digits)
print(f"KL divergence {model.kl_divergence_:.3f}, recall {quality['recall']:.2f}")
assert quality["recall"] > 0.55
