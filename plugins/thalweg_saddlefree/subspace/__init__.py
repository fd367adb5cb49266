"""Saddle-free steps in a subspace of a few directions, on batches of the data rows."""
