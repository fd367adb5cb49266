"""Benchmark of near-isometric linear embeddings."""
