"""Nonlinear embeddings and the preconditioners made from their graph Laplacians."""
