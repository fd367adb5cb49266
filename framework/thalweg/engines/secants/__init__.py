"""The secants of a set of points: the pairs whose length a linear map changes most, certified.

The contract is :class:`SecantConstraints`: what an objective tells a solver by cutting planes.
"""

from typing import TYPE_CHECKING

from thalweg.engines.secants.contract import SecantConstraints
from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg.engines.secants.frame import row_blocks
    from thalweg.engines.secants.points import (
        LARGEST_COMPONENT,
        SparseRows,
        checked_components,
        exact_points,
    )
    from thalweg.engines.secants.secant_bounds import gamma
    from thalweg.engines.secants.secant_tiles import Block, Edges, Scan
    from thalweg.engines.secants.secants import SecantSet
    from thalweg.engines.secants.tile_scans import visit_pairs
    from thalweg.engines.secants.worst_secants import WorstPair

__all__ = [
    "LARGEST_COMPONENT", "Block", "Edges", "Scan", "SecantConstraints", "SecantSet", "SparseRows",
    "WorstPair", "checked_components", "exact_points", "gamma", "row_blocks", "visit_pairs",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
