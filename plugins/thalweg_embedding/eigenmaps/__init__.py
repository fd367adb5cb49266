"""Embeddings that are eigenproblems: Laplacian eigenmaps and locally linear embedding."""
