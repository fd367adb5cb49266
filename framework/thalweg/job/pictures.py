"""Pictures of a run: the solution where it is a map, and the convergence."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from thalweg.config import Configuration
from thalweg.data import Dataset
from thalweg.report import draw_convergence, draw_embedding
from thalweg.result import Trace


def draw_run(
    folder: Path,
    configuration: Configuration,
    dataset: Dataset | None,
    trace: Trace,
    solution: np.ndarray | None,
) -> list[Path]:
    """Draw what can be drawn of a run.  Called on one rank.

    Returns
    -------
    list of Path
        The files written.
    """
    files = [folder / "convergence.png"]
    title = f"{configuration.objective['name']} by {configuration.method}"
    if dataset is not None:
        title = f"{dataset.name}: {title}"
    draw_convergence(files[0], {configuration.method: trace}, title=title)
    if (
        solution is not None
        and is_map(solution, len(solution), dataset)
        and np.isfinite(solution).all()
    ):
        assert dataset is not None
        files.append(folder / "embedding.png")
        draw_embedding(files[1], solution, dataset.labels, dataset.label_names, title=title)
    return files


def is_map(solution: np.ndarray, n_rows: int, dataset: Dataset | None) -> bool:
    """Whether a solution has a row of one to three coordinates for each row of the data.

    Parameters
    ----------
    solution
        All of its rows, or those of one rank.
    n_rows
        Number of all its rows.
    """
    return (
        dataset is not None
        and solution.ndim == 2
        and n_rows == dataset.layout.rows
        and 1 <= solution.shape[1] <= 3
        and solution.dtype.kind == "f"
    )
