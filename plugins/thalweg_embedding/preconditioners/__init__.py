"""Partial-Hessian strategies: B in B p = -g, from 4 D+ to 4 L+ + 8 lambda L^xx."""
