"""Sammon's mapping for thalweg, with a preconditioner and a solver of its own."""
