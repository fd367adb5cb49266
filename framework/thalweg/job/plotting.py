"""Pictures drawn anew from a run directory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from thalweg.config import read_configuration
from thalweg.data import Dataset, load_data
from thalweg.errors import InputError
from thalweg.job.pictures import draw_run
from thalweg.parallel import MPI
from thalweg.report import draw_convergence
from thalweg.result import Trace


def plot(folder: Path | str) -> list[Path]:
    """Draw the pictures of a run or of a comparison again.  Called on one rank.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    InputError
        The folder holds no finished run.
    """
    folder = Path(folder)
    if (folder / "comparison.json").exists():
        methods = json.loads((folder / "comparison.json").read_text())["methods"]
        traces = {row["method"]: _trace(folder / row["folder"]) for row in methods}
        draw_convergence(folder / "convergence.png", traces)
        drawn = [folder / "convergence.png"]
        for row in methods:
            drawn += plot(folder / row["folder"])
        return drawn
    trace = _trace(folder)
    configuration = read_configuration(folder / "config.toml")
    dataset: Dataset | None = None
    solution: np.ndarray | None = None
    if configuration.data is not None:
        dataset = load_data(configuration.data, MPI.COMM_SELF)
    if (folder / "solution.npy").exists():
        solution = np.load(folder / "solution.npy", allow_pickle=False)
    return draw_run(folder, configuration, dataset, trace, solution)


def _trace(folder: Path) -> Trace:
    try:
        with open(folder / "trace.csv", newline="") as stream:
            return Trace.read_csv(stream)
    except FileNotFoundError as error:
        raise InputError(f"'{folder}' holds no finished run: it has no trace.csv") from error
    except (OSError, ValueError, StopIteration) as error:
        raise InputError(f"'{folder}' holds no finished run: {error}") from error
