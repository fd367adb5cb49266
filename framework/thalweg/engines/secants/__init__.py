"""The secants of a set of points: the pairs whose length a linear map changes most, certified.

The contract is :class:`SecantConstraints`: what an objective tells a solver by cutting planes.
"""

from typing import TYPE_CHECKING

from thalweg.engines.secants.contract import SecantConstraints
from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg.engines.secants.columns import SecantColumns, differences
    from thalweg.engines.secants.pair_scans import PairChanges, candidates
    from thalweg.engines.secants.points import SparseRows, checked_components
    from thalweg.engines.secants.scan import Scan
    from thalweg.engines.secants.secants import SecantSet

__all__ = [
    "PairChanges", "Scan", "SecantColumns", "SecantConstraints", "SecantSet", "SparseRows",
    "candidates", "checked_components", "differences",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
