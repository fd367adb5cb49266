"""Graph Laplacians over the ranks: set up once, solved with many times."""

from thalweg.parallel.laplacian.components import component_labels
from thalweg.parallel.laplacian.methods import available
from thalweg.parallel.laplacian.solver import LaplacianSolver

__all__ = ["LaplacianSolver", "available", "component_labels"]
