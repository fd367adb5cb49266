"""Scans of all pairs of points, tile by tile around the ring of ranks."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from thalweg.engines.secants.frame import PrincipalFrame
from thalweg.engines.secants.secant_bounds import (
    Accuracy,
    SplitPoints,
    cheapest_split,
    image_bounds,
    split_points,
)
from thalweg.engines.secants.secant_tiles import (
    TILE,
    Block,
    Edges,
    Scan,
    ScanOptions,
    TileChoice,
    strips_of,
)
from thalweg.engines.secants.worst_secants import WorstSecants
from thalweg.parallel import Layout, Ring, max_over_ranks, run_on_threads

if TYPE_CHECKING:
    from thalweg.engines.secants.secants import SecantSet

#: Bytes of rows that a rank receives of another at a time; chosen by hand.
PIECE = 4e6


def visit_pairs(
    layout: Layout,
    arrays: tuple[np.ndarray, ...],
    visit: Callable[[Block, Block, Edges], None],
    count: Callable[[], int],
    progress: Callable[[int], None] | None = None,
    chosen: TileChoice | None = None,
    labels: np.ndarray | None = None,
) -> None:
    """Call ``visit`` from several threads on strips of tiles: all pairs of rows, each once.

    Collective.  ``arrays`` are of this rank's rows, ``labels`` of all.  ``progress`` is called with
    the number of pairs that ``count``, of those visited so far, has grown by; all tiles are visited
    unless some are ``chosen``.
    """
    chosen, told = chosen or TileChoice(ScanOptions(), layout.rows), count()
    if labels is None:
        labels = np.zeros(layout.rows, dtype=np.int32)
    mine: Block | None = None
    row_bytes = sum(array.nbytes for array in arrays) / max(1, len(arrays[0]))
    largest = max_over_ranks(layout.comm, row_bytes) * layout.counts().max()
    pieces = int(np.clip(largest / PIECE, 1, 16)) if layout.comm.size > 1 else 1

    def poll() -> None:
        nonlocal told
        block.poll()
        last, told = told, count()
        if progress is not None:
            progress(told - last)

    for block in Ring(layout).blocks(*arrays, each_pair_once=True, pieces=pieces):
        other = Block(block.start, block.arrays, labels)
        mine = other if mine is None else mine  # a rank's own block comes first
        own = mine.part(block.rows)
        low, high = (own, other) if own.start < other.start else (other, own)
        if block.own:
            low = high = own
        strips = [(low, high, strip) for strip in strips_of(low, high, chosen)]
        run_on_threads(lambda strip: visit(*strip), strips, poll)


class TileScans:
    """Scans of a set whose secants are all pairs, or those within a class.

    What depends little on the map, the split of the points into leading coordinates and the
    rest, is kept between scans, and images between the parts of one.
    """

    def __init__(self, secants: "SecantSet", frame: PrincipalFrame) -> None:
        self._secants, self._frame = secants, frame
        #: Images under the map whose scan goes on with a further part.
        self._mapped: tuple[bytes, np.ndarray, np.ndarray, np.ndarray] | None = None
        self._split: SplitPoints | None = None
        self._split_key: tuple[int, float] | None = None
        self._split_choice = (0, 0)

    def scan(
        self,
        components: np.ndarray,
        options: ScanOptions,
        progress: Callable[[int], None] | None,
        before: Scan | None,
    ) -> Scan:
        """The scan of all pairs, or those within a class, tile by tile around the ring."""
        secants = self._secants
        accuracy, ranks = Accuracy.of(components), secants.comm.size
        n_leading, arrays = self._tile_rows(components, options, accuracy)
        keeper = WorstSecants(options, accuracy, secants.sparse, ranks)
        if before is not None:
            keeper.go_on_from(before, secants.comm.rank == 0)
        scan_strip = partial(keeper.scan, components, secants.labels is not None)
        visit_pairs(
            secants.layout, arrays, scan_strip, lambda: keeper.pairs, progress,
            TileChoice(options, secants.n_points), secants.labels,
        )  # fmt: skip
        complete = options.fraction >= 1.0 and options.is_last_part
        return keeper.finish(secants.layout, n_leading, complete, secants.n_pairs)

    def _tile_rows(
        self, components: np.ndarray, options: ScanOptions, accuracy: Accuracy
    ) -> tuple[int, tuple[np.ndarray, ...]]:
        """Number of leading coordinates, and the arrays of :class:`Block`."""
        secants, n_leading, n_further = self._secants, options.n_leading, options.n_further
        if n_leading is None:
            n_leading, n_further = self._cheapest_split(components, options.threshold)
        split = self._split_points(n_leading, n_further)
        key = components.tobytes()
        if self._mapped is None or self._mapped[0] != key:
            images = secants.images(components)
            self._mapped = (key, images, *image_bounds(images, self._frame, accuracy))
        _, images, single, mapped_bounds = self._mapped
        if options.is_last_part:
            self._mapped = None
        bounds = np.concatenate([split.bounds, mapped_bounds, split.further_bounds], axis=1)
        sizes = self._frame.centered_sizes
        rows = (secants.stored_rows, sizes, images, split.leading, single, bounds, split.further)
        return split.sizes[0], rows

    def _cheapest_split(self, components: np.ndarray, threshold: float) -> tuple[int, int]:
        secants = self._secants
        if secants.dimension < 64 or secants.n_points < 2 * TILE:
            return secants.dimension, 0
        # What a choice depends on but little: chosen again only if that changes.
        key = (len(components), round(min(threshold, 1e3), 2))
        if key != self._split_key:
            present = (0, 0) if self._split is None else self._split.sizes
            chosen = cheapest_split(self._frame, components, threshold, present)
            self._split_choice = secants.comm.bcast(chosen)
            self._split_key = key
        return self._split_choice

    def _split_points(self, n_leading: int, n_further: int) -> SplitPoints:
        secants = self._secants
        if n_leading <= 0 or n_leading > len(secants.directions):
            n_leading = secants.dimension
        if self._split is None or self._split.sizes != (n_leading, n_further):
            self._split = split_points(secants.points, self._frame, n_leading, n_further)
        return self._split
