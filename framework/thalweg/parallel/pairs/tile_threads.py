"""Threads of a rank that work off tiles, each with buffers of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import threadpoolctl

from thalweg.parallel.pairs.secant_tiles import TILE


class Room(threading.local):
    """Buffers of one thread, made at first use."""

    products: np.ndarray | None = None

    def get(self) -> tuple[np.ndarray, np.ndarray]:
        """Room for two products of a tile."""
        if self.products is None:
            self.products = np.empty((2, TILE * TILE), dtype=np.float32)
        return self.products[0], self.products[1]


class TilePool:
    """Threads that work off tiles, each with BLAS kept to itself."""

    def __init__(self, threads: int) -> None:
        self._threads = max(1, threads)
        self._room = Room()

    def __enter__(self) -> TilePool:
        if self._threads > 1:
            self._limit: Any = threadpoolctl.threadpool_limits(limits=1, user_api="blas")
            self._executor = ThreadPoolExecutor(self._threads)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._threads > 1:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._limit.restore_original_limits()

    def run(
        self,
        tiles: list[Any],
        work: Callable[..., int],
        poll: Callable[[], None],
        progress: Callable[[int], None] | None,
    ) -> None:
        """Call ``work(*tile, room)`` for every tile, which returns its number of pairs."""
        if self._threads == 1 or len(tiles) == 1:
            results: Any = (work(*tile, self._room) for tile in tiles)
        else:
            results = self._executor.map(lambda tile: work(*tile, self._room), tiles)
        for count in results:
            poll()
            if progress is not None:
                progress(count)
