"""All pairs of rows of a distributed array, streamed around a ring of ranks."""

from thalweg.parallel.pairs.kernel_sums import KernelSums
from thalweg.parallel.pairs.neighbors import nearest_neighbors
from thalweg.parallel.pairs.ring import Ring, RingBlock
from thalweg.parallel.pairs.secants import SecantSet, checked_components
from thalweg.parallel.pairs.sparse_rows import SparseRows
from thalweg.parallel.pairs.worst_secants import Scan

__all__ = [
    "KernelSums",
    "Ring",
    "RingBlock",
    "Scan",
    "SecantSet",
    "SparseRows",
    "checked_components",
    "nearest_neighbors",
]
