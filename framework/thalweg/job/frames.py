"""Iterates kept for an animation."""

from __future__ import annotations

import numpy as np

from thalweg.data import Dataset
from thalweg.driver import Iterate
from thalweg.interfaces import Objective
from thalweg.job.directory import RunDirectory

#: Frames are thinned out so that no more than this many are kept.
MOST_FRAMES = 150


class Frames:
    """Callback that keeps iterates, every k-th, with k growing as needed.

    Attributes
    ----------
    frames
        The variable of each, whole, float32: on rank 0, which draws, and empty on the others.
    captions
        A line on each, on all ranks.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.frames: list[np.ndarray] = []
        self.captions: list[str] = []
        self.every = 1

    def __call__(self, iterate: Iterate) -> bool:
        """Keep the iterate if its turn has come; never ends the run.  Collective."""
        if iterate.iteration % self.every == 0:
            whole = self.objective.layout.gather(iterate.state.x)
            if self.objective.comm.rank == 0:
                self.frames.append(np.array(whole, dtype=np.float32))
            self.captions.append(f"evaluation {iterate.evaluations}: {iterate.objective:.6g}")
            if len(self.captions) > MOST_FRAMES:
                self.frames, self.captions = self.frames[::2], self.captions[::2]
                self.every *= 2
        return False

    def draw(self, directory: RunDirectory, dataset: Dataset | None) -> None:
        """Write ``animation.gif``.  Called on rank 0 alone."""
        from thalweg.report import draw_animation

        labels = None if dataset is None else dataset.labels
        if labels is not None and len(labels) != len(self.frames[0]):
            labels = None
        draw_animation(directory.path / "animation.gif", self.frames, labels, self.captions)
