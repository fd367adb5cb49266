"""Benchmark of the saddle-free family, run with ``scripts/bench saddlefree``."""
