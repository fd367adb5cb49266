"""Benchmark of alternative clustering."""
