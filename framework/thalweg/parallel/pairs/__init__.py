"""All pairs of rows of a distributed array, streamed round a ring of ranks."""

from thalweg.parallel.pairs.neighbours import nearest_neighbours
from thalweg.parallel.pairs.ring import Ring, RingBlock
from thalweg.parallel.pairs.tiles import Tile, tiles

__all__ = ["Ring", "RingBlock", "Tile", "nearest_neighbours", "tiles"]
