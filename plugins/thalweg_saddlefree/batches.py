"""Curvature from a part of the data rows, drawn by seed and counter."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from thalweg.parallel import Layout


class CurvatureBatches(ABC):
    """An objective whose curvature products can run over a sample of its data rows.

    Martens (2010), section 4.4: values and gradients see all rows, curvature
    products only some, which hardly changes the direction and costs far less.
    """

    @abstractmethod
    def draw_curvature_rows(self, seed: int, counter: int, rows: int | None) -> None:
        """Let curvature products see ``rows`` data rows from now on; None stands for all.

        The sample depends on ``seed`` and ``counter`` alone, not on the ranks.
        """


def drawn_rows(layout: Layout, seed: int, counter: int, rows: int) -> np.ndarray:
    """Local indices of this rank's share of a sample of ``rows`` rows without repetition.

    Returns
    -------
    ndarray of int64, ascending
    """
    stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(counter,)))
    chosen = np.sort(stream.choice(layout.rows, size=rows, replace=False))
    mine = chosen[(chosen >= layout.start) & (chosen < layout.stop)]
    return np.asarray(mine - layout.start, dtype=np.int64)
