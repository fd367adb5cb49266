"""Alternative clustering (KDAC): iterative spectral method, Stiefel descent, dimension growth.

>>> from thalweg_clustering import KDAC
>>> KDAC(n_clusters=2).n_clusters
2

Names are imported when first used, so that listing plugins stays quick.
"""

from typing import TYPE_CHECKING

from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg_clustering.agreement import compare_labelings
    from thalweg_clustering.alternatives import Alternative, Alternatives, find_alternatives
    from thalweg_clustering.build import build_kdac
    from thalweg_clustering.curvilinear import Curvilinear
    from thalweg_clustering.dimension_growth import DimensionGrowth
    from thalweg_clustering.estimator import EXPECTED_FAILURES, KDAC
    from thalweg_clustering.ism import ISM
    from thalweg_clustering.kdac import KDACObjective
    from thalweg_clustering.kernels import KernelFunction, kernel_function
    from thalweg_clustering.pictures import plot_views, views
    from thalweg_clustering.stiefel import Stiefel, StiefelVariable
    from thalweg_clustering.stiefel_objectives import KernelPairSum

__all__ = [
    "EXPECTED_FAILURES", "ISM", "KDAC", "Alternative", "Alternatives", "Curvilinear",
    "DimensionGrowth", "KDACObjective", "KernelFunction", "KernelPairSum", "Stiefel",
    "StiefelVariable", "build_kdac", "compare_labelings", "find_alternatives", "kernel_function",
    "plot_views", "views",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
