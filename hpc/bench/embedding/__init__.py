"""Benchmark of the nonlinear embeddings."""
