"""Pictures drawn anew from a run directory."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from thalweg.config import read_configuration
from thalweg.data import Dataset, load_data
from thalweg.data.numpy_files import map_npy
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
        try:
            methods = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))[
                "methods"
            ]
            folders = {str(row["method"]): folder / Path(row["folder"]).name for row in methods}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"'{folder / 'comparison.json'}' is not what a comparison writes: {error}"
            ) from error
        traces = {method: _trace(one) for method, one in folders.items()}
        draw_convergence(folder / "convergence.png", traces)
        drawn = [folder / "convergence.png"]
        for one in folders.values():
            drawn += plot(one)
        return drawn
    trace = _trace(folder)
    configuration = read_configuration(folder / "config.toml")
    dataset: Dataset | None = None
    solution: np.ndarray | None = None
    if configuration.data is not None:
        dataset = load_data(configuration.data, MPI.COMM_SELF)
    if (folder / "solution.npy").exists():
        solution = np.array(map_npy(folder / "solution.npy"))
    return draw_run(folder, configuration, dataset, trace, solution)


def _trace(folder: Path) -> Trace:
    try:
        with open(folder / "trace.csv", newline="") as stream:
            return Trace.read_csv(stream)
    except FileNotFoundError as error:
        raise InputError(f"'{folder}' holds no finished run: it has no trace.csv") from error
    except (OSError, ValueError, StopIteration, csv.Error) as error:
        raise InputError(f"'{folder}' holds no finished run: {error}") from error
