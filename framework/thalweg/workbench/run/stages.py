"""The results of a homotopy's stages, each in a file of the run's folder."""

from pathlib import Path
from typing import Any

import numpy as np

from thalweg.driver import Iterate
from thalweg.parallel import on_root
from thalweg.workbench.readers.array_files import map_npy
from thalweg.workbench.run.directory import save_rows


class StageResults:
    """Callback that writes a stage's result when the next one begins, from the same point.

    :attr:`names` are those of all results by their files, for ``result.json``.
    """

    def __init__(self, objective: Any, values: tuple[float, ...], folder: Path) -> None:
        self.objective, self.values, self.folder = objective, values, folder
        self.files = [f"stages/{n:02d}.npy" for n in range(len(values) - 1)] + ["solution.npy"]
        self.names = dict(zip(self.files, map(objective.stage_name, values), strict=True))
        self.parameter: float | None = None

    def __call__(self, iterate: Iterate) -> bool:
        """Write the result of a stage that has ended; never ends the run.  Collective."""
        objective, before = self.objective, self.parameter
        self.parameter = objective.homotopy_parameter
        if before is not None and before != self.parameter:
            path = self.folder / self.files[self.values.index(before)]
            on_root(objective.comm, lambda: path.parent.mkdir(exist_ok=True))
            rows = objective.solution(iterate.rows)
            save_rows(objective.comm, path, objective.solution_layout, rows)
        return False


def stage_maps(folder: Path, names: Any, points: np.ndarray) -> dict[str, np.ndarray]:
    """Maps of the same points as a run has written them, by the names in its ``result.json``."""
    there = {name: folder / file for file, name in (names or {}).items()}
    maps = {name: np.array(map_npy(path)) for name, path in there.items() if path.exists()}
    return {name: places for name, places in maps.items() if places.shape == points.shape}
