"""A block cut into tiles of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from thalweg.parallel.pairs.ring import RingBlock


@dataclass(frozen=True)
class Tile:
    """A rectangle of pairs.

    Attributes
    ----------
    rows
        This rank's own rows, as local row numbers.
    columns
        Rows of the received block, counted from its start.
    diagonal
        Whether the tile lies on the diagonal of a round that meets each pair once: its rows are its
        columns, and only the pairs ``i < j`` count.
    """

    rows: slice
    columns: slice
    diagonal: bool = False


def tiles(block: RingBlock, bytes_per_pair: float = 8.0, memory: float = 2.0**24) -> Iterator[Tile]:
    """Cut a block into tiles, near square, whose pairs fit into ``memory`` bytes.

    Between two tiles MPI is given the chance to move the next block.

    Parameters
    ----------
    block
        From :meth:`~thalweg.parallel.pairs.Ring.blocks`.
    bytes_per_pair
        Bytes that the caller needs for each pair of a tile.
    memory
        Bytes for one tile, by default 16 MiB, about a core's share of the cache.

    Yields
    ------
    Tile
        In a round that meets each pair once, a rank's own block is cut along equal edges
        for rows and columns, and the tiles below the diagonal are left out.
    """
    pairs = max(1, int(memory / bytes_per_pair))
    height = block.rows.stop - block.rows.start
    width = block.stop - block.start
    side = max(1, math.isqrt(pairs))
    halved = block.own and block.each_pair_once
    if not halved:
        # Whatever a short side leaves free goes to the long one.
        side_rows = max(side, pairs // max(1, width)) if width < side else side
        side_columns = max(side, pairs // max(1, height)) if height < side else side
    else:
        side_rows = side_columns = side
    for top in range(block.rows.start, block.rows.stop, side_rows):
        rows = slice(top, min(top + side_rows, block.rows.stop))
        for edge in range(top if halved else 0, width, side_columns):
            columns = slice(edge, min(edge + side_columns, width))
            yield Tile(rows, columns, diagonal=halved and edge == top)
            block.poll()
