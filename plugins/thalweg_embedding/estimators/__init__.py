"""scikit-learn estimators of the embeddings."""
