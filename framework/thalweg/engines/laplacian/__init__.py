"""Systems with a graph Laplacian over the ranks: set up once, solved with many times.

The contract is :class:`AttractiveLaplacian`: what an objective tells the engine.
"""

from typing import TYPE_CHECKING

from thalweg.engines.laplacian.contract import AttractiveLaplacian
from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg.engines.laplacian.components import component_labels
    from thalweg.engines.laplacian.methods import available
    from thalweg.engines.laplacian.solver import LaplacianSolver

__all__ = ["AttractiveLaplacian", "LaplacianSolver", "available", "component_labels"]

__getattr__, __dir__ = lazy_names(__name__)
