"""Sums over pairs of map points: of all pairs, or of the neighbours in a sparse graph."""
