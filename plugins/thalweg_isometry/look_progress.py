"""A progress bar for looks at many secants."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

from thalweg.parallel.pairs import SecantSet


class looking:
    """A progress bar in pairs per second, on rank 0 and only where somebody watches."""

    def __init__(self, secants: SecantSet, fraction: float) -> None:
        self._secants = secants
        self._total = int(fraction * secants.n_pairs)
        self._bar: Any = None

    def __enter__(self) -> Callable[[int], None] | None:
        if self._secants.comm.rank or not sys.stderr.isatty() or self._total < 10**8:
            return None
        from tqdm import tqdm

        self._bar = tqdm(
            total=self._total // self._secants.comm.size, unit="pair", unit_scale=True, leave=False
        )
        return cast(Callable[[int], None], self._bar.update)

    def __exit__(self, *failure: object) -> None:
        if self._bar is not None:
            self._bar.close()
