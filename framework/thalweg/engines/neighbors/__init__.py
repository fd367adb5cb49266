"""Exact nearest neighbors of distributed rows, by tiles of all pairs around the ring of ranks."""

from typing import TYPE_CHECKING

from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg.engines.neighbors.neighbors import nearest_neighbors, spatial_order

__all__ = ["nearest_neighbors", "spatial_order"]

__getattr__, __dir__ = lazy_names(__name__)
