"""The results of a homotopy's stages, each in a file of the run's folder."""

from pathlib import Path
from typing import Any

import numpy as np

from thalweg.driver import Iterate
from thalweg.interfaces import Objective
from thalweg.parallel import Array, on_root
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
            _save_map(objective, path, objective.solution(iterate.rows))
        return False


def save_views(objective: Objective, x: Array, folder: Path) -> dict[str, str]:
    """Write the views of a result; their names by their files, as of stages.  Collective."""
    views = objective.views(x)
    names = {f"views/{number:02d}.npy": name for number, name in enumerate(views)}
    for file, name in names.items():
        _save_map(objective, folder / file, views[name])
    return names


def _save_map(objective: Objective, path: Path, rows: np.ndarray) -> None:
    on_root(objective.comm, lambda: path.parent.mkdir(exist_ok=True))
    save_rows(objective.comm, path, objective.solution_layout, rows)


def saved_maps(folder: Path, names: Any, rows: int) -> dict[str, np.ndarray]:
    """Maps of so many points as a run has written them, by the names in its ``result.json``."""
    there = {name: folder / file for file, name in (names or {}).items()}
    maps = {name: np.array(map_npy(path)) for name, path in there.items() if path.exists()}
    return {name: places for name, places in maps.items() if len(places) == rows}
