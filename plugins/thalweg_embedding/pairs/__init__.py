"""Sums over pairs of map points: of all pairs, or of the neighbors in a sparse graph."""
