"""Alternative clustering (KDAC): iterative spectral method, Stiefel descent, dimension growth.

>>> from thalweg_clustering import KDAC
>>> other = KDAC(n_clusters=2).fit(samples, given).labels_

Names are imported when first used, so that listing plugins stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg_clustering.curvilinear import Curvilinear
    from thalweg_clustering.dimension_growth import DimensionGrowth
    from thalweg_clustering.estimator import EXPECTED_FAILURES, KDAC
    from thalweg_clustering.ism import ISM
    from thalweg_clustering.kdac import KDACObjective, make_kdac
    from thalweg_clustering.pair_sum import GaussianPairSum, GaussianTermSum
    from thalweg_clustering.search import search_parameters
    from thalweg_clustering.trust_region import TrustRegion

_WHERE = {
    "Curvilinear": "curvilinear",
    "DimensionGrowth": "dimension_growth",
    "EXPECTED_FAILURES": "estimator",
    "GaussianPairSum": "pair_sum",
    "GaussianTermSum": "pair_sum",
    "ISM": "ism",
    "KDAC": "estimator",
    "KDACObjective": "kdac",
    "TrustRegion": "trust_region",
    "make_kdac": "kdac",
    "search_parameters": "search",
}

__all__ = [
    "EXPECTED_FAILURES",
    "ISM",
    "KDAC",
    "Curvilinear",
    "DimensionGrowth",
    "GaussianPairSum",
    "GaussianTermSum",
    "KDACObjective",
    "TrustRegion",
    "make_kdac",
    "search_parameters",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
