"""Pictures of a run, drawn at its end or anew, and the iterates kept for an animation."""

import csv
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np

from thalweg.data import Dataset
from thalweg.driver import Iterate
from thalweg.errors import InputError
from thalweg.files import atomic_write
from thalweg.interfaces import Homotopy, Objective
from thalweg.parallel import MPI
from thalweg.result import Trace
from thalweg.workbench.config import Configuration, read_configuration
from thalweg.workbench.readers import load_data
from thalweg.workbench.readers.array_files import map_npy
from thalweg.workbench.report import (
    draw_animation,
    draw_convergence,
    draw_embedding,
    write_map_page,
    write_obsm,
)
from thalweg.workbench.report.figures import ORIGIN
from thalweg.workbench.run.directory import RunDirectory, saved_maps


def own_picture(path: Path, mark: str = ORIGIN) -> Path:
    """``path``, where a file may be written: nothing is there, or one with thalweg's mark."""
    if path.exists() and not _is_own(path, mark):
        raise InputError(f"'{path}' was not drawn by thalweg, and would be overwritten; rename it")
    return path


def _is_own(path: Path, mark: str = ORIGIN) -> bool:
    with path.open("rb") as stream:
        return mark.encode() in stream.read(4096)


def draw_run(
    folder: Path,
    configuration: Configuration,
    dataset: Dataset | None,
    labels: np.ndarray | None,
    page: bool = False,
    objective: Objective | None = None,
) -> list[Path]:
    """Draw what can be drawn of a run whose results are in the folder, and give the files written.

    Called on one rank, with all labels.  ``page``: write a page of HTML with its map as well, for
    which the data set must be whole; what the ``objective`` can tell of each row is written to
    ``measures.csv``, and shown there.
    """
    trace, files = _trace(folder), [own_picture(folder / "convergence.png")]
    method = f"{configuration.objective['name']} by {configuration.method}"
    title = method if dataset is None else f"{dataset.name}: {method}"
    draw_convergence(files[0], {configuration.method: trace}, title=title)
    path = folder / "solution.npy"
    solution = np.array(map_npy(path)) if dataset is not None and path.exists() else np.empty(0)
    named, points, colors = _stated(folder, "views"), solution, labels
    views = saved_maps(folder, named, len(solution)) if solution.ndim == 2 else {}
    if views:  # the first, colored by what it shows
        points, colors = next(iter(views.values())), solution[:, 0]
    is_map = points.ndim == 2 and 1 <= points.shape[1] <= 3 and points.dtype.kind == "f"
    if dataset is None or not (is_map and len(points) == dataset.layout.rows):
        if page:
            raise InputError(f"the run in '{folder}' has no map of its rows to show on a page")
        return files
    given, caption = dataset.label_names, _caption(folder, configuration, len(points))
    about = (colors, None if views else given, title, caption)
    if np.isfinite(points).all():
        files.append(own_picture(folder / "embedding.png"))
        draw_embedding(files[-1], points, *about)
    if page:
        thumbnails = None
        if dataset.image_shape is not None:
            thumbnails = np.asarray(dataset.values).reshape(len(points), *dataset.image_shape)
        measures = {} if objective is None else objective.row_measures(points, dataset)
        if measures:
            header, rows = ",".join(measures), np.column_stack([*measures.values()])
            files.append(own_picture(folder / "measures.csv", header))
            with atomic_write(files[-1]) as file:
                np.savetxt(file, rows, "%.6g", ",", header=header, comments="")
        files.append(own_picture(folder / "embedding.html"))
        stops = saved_maps(folder, _stated(folder, "stages"), len(points))
        labelings: dict[str, tuple[np.ndarray, Sequence[str] | None]] = {}
        if views:
            stops = {f"view by {name}": places for name, places in views.items()}
            labelings = {} if labels is None else {"given": (labels, given)}
            clusters = zip(named.values(), solution.T, strict=False)
            labelings |= {name: (column, None) for name, column in clusters}
            about = (None, None, title, caption)
        taken = None if dataset.chosen is None else np.flatnonzero(dataset.chosen)
        write_map_page(files[-1], points, *about, thumbnails, measures, labelings, stops, taken)
    return files


def _caption(folder: Path, configuration: Configuration, rows: int) -> str:
    """Number of points, perplexity and divergence of a map, as far as they are known."""
    parts = [f"N = {rows:,}"]
    for option in ("perplexity", "n_neighbors"):
        if isinstance(configuration.objective.get(option), int | float):
            parts.append(f"{option} {configuration.objective[option]:g}".replace("_", " "))
            break
    for name, *keys in ("KL divergence", "metrics", "kl_divergence"), ("objective", "objective"):
        if isinstance(value := _stated(folder, *keys), int | float):
            parts.append(f"{name} {value:.4g}")
            break
    return " · ".join(parts)


def _stated(folder: Path, *keys: str) -> Any:
    """An entry of ``result.json``, None where it or the file is missing or damaged."""
    try:
        content = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        for key in keys:
            content = content[key]
        return content
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def plot(
    folder: Path | str,
    page: bool = False,
    measures: bool = False,
    obsm: str | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Draw the pictures of a run or of a comparison again; the files written.  Called on one rank.

    ``page``: write a page of HTML with the map of a run as well, or of each run compared;
    ``measures``: with what the objective can tell of each row, for which it is made again.
    ``obsm``: write the map of a run into the ``.h5ad`` file of its data, under this key, and
    ``overwrite`` what is there.
    """
    with closing(RunDirectory(folder)) as directory:
        if directory.path.is_dir():
            directory.lock.acquire()
        files = _plot(directory.path, page or measures, measures)
        if obsm is None:
            return files
        configuration = read_configuration(directory.path / "config.toml")
        target = str((configuration.data or {}).get("path"))
        if configuration.methods or not target.lower().endswith(".h5ad"):
            raise InputError("--obsm is for a single run, of data from an .h5ad file")
        write_obsm(target, obsm, map_npy(directory.path / "solution.npy"), overwrite)
        return [*files, Path(target)]


def _plot(folder: Path, page: bool, measures: bool) -> list[Path]:
    stated = folder / "comparison.json"
    if stated.exists():
        try:
            methods = json.loads(stated.read_text(encoding="utf-8"))["methods"]
            folders = {str(row["method"]): folder / Path(row["folder"]).name for row in methods}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"'{stated}' is not what a comparison writes: {error}") from error
        drawn = [own_picture(folder / "convergence.png")]
        draw_convergence(drawn[0], {method: _trace(one) for method, one in folders.items()})
        refused = []
        for one in folders.values():
            try:
                drawn += plot(one, page, measures)
            except InputError as error:
                refused.append(error)
        if refused:
            raise refused[0]
        return drawn
    _trace(folder)  # refused is a folder without a finished run
    configuration = read_configuration(folder / "config.toml")
    dataset, objective = None, None
    if measures:
        from thalweg.workbench.run.single_run import build_objective

        dataset, objective = build_objective(configuration, MPI.COMM_SELF)
        if schedule := configuration.schedule(getattr(objective, "homotopy_parameter", 1.0)):
            cast(Homotopy, objective).homotopy_parameter = schedule.values[-1]
    elif configuration.data is not None:
        dataset = load_data(configuration.data, MPI.COMM_SELF)
    if dataset is not None:
        for what, now in dataset.digests.items():
            if _stated(folder, "digests", what) not in (None, now):
                raise InputError(
                    f"the {what} of the run in '{folder}' are not what they were; put them back, "
                    "or run it again"
                )
    labels = None if dataset is None else dataset.labels
    drawn = draw_run(folder, configuration, dataset, labels, page, objective)
    old = folder / "embedding.png"
    if old not in drawn and old.exists() and _is_own(old):
        text = "is no finite map of all rows of the data; the picture is left as it was"
        raise InputError(f"'{folder / 'solution.npy'}' {text}")
    return drawn


def _trace(folder: Path) -> Trace:
    try:
        with open(folder / "trace.csv", newline="") as stream:
            reader = csv.reader(stream)
            trace = Trace.from_array(next(reader), np.array(list(reader), dtype=float))
            trace["objective"]  # which pictures show
            return trace
    except FileNotFoundError as error:
        raise InputError(f"'{folder}' holds no finished run: it has no trace.csv") from error
    except (OSError, ValueError, KeyError, StopIteration, csv.Error) as error:
        raise InputError(f"'{folder}' holds no finished run: {error}") from error


#: Frames are thinned out so that no more than this many are kept.
MAX_FRAMES = 150


class Frames:
    """Callback that keeps iterates, whole on rank 0: every k-th, with k growing as needed."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.frames: list[np.ndarray] = []
        self.captions: list[str] = []
        self.every = 1

    def __call__(self, iterate: Iterate) -> bool:
        """Keep the iterate if its turn has come; never ends the run.  Collective."""
        if iterate.iteration % self.every == 0:
            whole = self.objective.layout.gather_on_root(iterate.rows.astype(np.float32))
            if self.objective.comm.rank == 0:
                self.frames.append(whole)
            self.captions.append(f"evaluation {iterate.evaluations}: {iterate.objective:.6g}")
            if len(self.captions) > MAX_FRAMES:
                self.frames, self.captions = self.frames[::2], self.captions[::2]
                self.every *= 2
        return False

    def draw(self, directory: RunDirectory, labels: np.ndarray | None) -> None:
        """Write ``animation.gif``.  Called on rank 0 alone, with all labels."""
        if labels is not None and len(labels) != len(self.frames[0]):
            labels = None
        file = own_picture(directory.path / "animation.gif")
        draw_animation(file, self.frames, labels, self.captions)
