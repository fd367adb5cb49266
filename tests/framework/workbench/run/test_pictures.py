"""Pictures and metrics come after the results: where one fails, a note says so."""

import base64
import json
import re
import sys
import types
from unittest.mock import Mock

import numpy as np
import pytest

import thalweg
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.plugins import MetricSpec, Provider, plugins
from thalweg.workbench.run import compare, pictures

CONFIG = {
    "data": {"name": "digits", "rows": 40},
    "objective": {"name": "elastic-embedding", "perplexity": 5},
    "stop": {"iterations": 3, "decrease": 0.0},
}
UNDRAWN = {**CONFIG, "output": {"pictures": False}}


def stored(tmp_path, **options):
    """A configuration whose data and labels are files; it draws nothing by itself."""
    points = np.random.default_rng(0).standard_normal((40, 4))
    np.savez(tmp_path / "a.npz", x=points, y=np.arange(40) % 3)
    data = {"path": str(tmp_path / "a.npz"), "key": "x", "labels": "y", **options}
    return points, {**UNDRAWN, "data": data}


@pytest.mark.parametrize(("command", "scale"), [(thalweg.run, "none"), (compare, "standard")])
def test_a_run_is_not_drawn_with_other_data_than_its_own(tmp_path, command, scale):
    points, config = stored(tmp_path, scale=scale)
    if command is compare:
        config["method"] = [{"solver": "lbfgs"}]
    out = tmp_path / "out"
    command(config, out, comm=MPI.COMM_SELF)
    drawn = pictures.plot(out)
    assert any(file.name == "embedding.png" for file in drawn)
    before = {file: file.read_bytes() for file in drawn}
    for what, changed in (
        ("labels", {"x": points, "y": np.arange(40) % 4}),
        ("labels", {"x": points, "y": np.roll(np.arange(40) % 3, 1)}),
        ("data", {"x": points[::-1], "y": np.arange(40) % 3}),
        ("data", {"x": points[:30], "y": np.arange(30) % 3}),
    ):
        np.savez(tmp_path / "a.npz", **changed)
        with pytest.raises(InputError, match=f"the {what} of the run in .* are not what they were"):
            pictures.plot(out)
    if command is thalweg.run:
        assert before == {file: file.read_bytes() for file in drawn}
        np.savez(tmp_path / "a.npz", x=points, y=np.arange(40) % 3)
        for broken in (np.zeros((30, 2)), np.full((40, 2), np.nan)):
            np.save(out / "solution.npy", broken)
            with pytest.raises(InputError, match="no finite map of all rows of the data"):
                pictures.plot(out)


def test_a_run_without_a_map_stands_in_no_others_way(tmp_path):
    methods = [{"label": name, "solver": "lbfgs"} for name in ("first", "second")]
    out, *runs = tmp_path, *(tmp_path / name for name in ("first", "second"))
    compare({**CONFIG, "method": methods}, out, comm=MPI.COMM_SELF)
    np.save(runs[0] / "solution.npy", np.full((40, 2), np.nan))
    (runs[1] / "embedding.png").unlink()
    with pytest.raises(InputError, match=r"first/solution\.npy' is no finite map"):
        pictures.plot(out)
    assert (runs[1] / "embedding.png").exists()
    mine = runs[0] / "embedding.png"
    mine.write_bytes(b"mine")
    assert (pictures.plot(runs[0]), mine.read_bytes()) == ([runs[0] / "convergence.png"], b"mine")


def test_what_an_objective_tells_of_rows_is_a_table_and_colors_of_the_page(tmp_path):
    _, config = stored(tmp_path, rows=30, sample=True)
    config |= {"objective": {"name": "t-sne"}, "output": {}}
    thalweg.run(config, tmp_path / "out", comm=MPI.COMM_SELF)
    assert not (tmp_path / "out" / "measures.csv").exists()
    files = [file.name for file in pictures.plot(tmp_path / "out", measures=True)]
    assert files == ["convergence.png", "embedding.png", "measures.csv", "embedding.html"]
    assert len(pictures.plot(tmp_path / "out", measures=True)) == 4  # over its own
    header, *rows = (tmp_path / "out" / "measures.csv").read_text().splitlines()
    assert header.startswith("neighbors kept (share),false neighbors")
    table = np.array([row.split(",") for row in rows], dtype=float)
    assert table.shape == (30, 5)
    assert 0.0 < table[:, 0].mean() < 1.0
    page = (tmp_path / "out" / "embedding.html").read_text()
    assert "how far the point jumps" in page
    taken = np.load(tmp_path / "out" / "rows.npy")  # of the file, with classes of these
    for told in (taken, taken % 3):
        assert base64.b64encode(told.astype("<u4")).decode() in page
    (tmp_path / "out" / "measures.csv").write_text("mine\n")
    with pytest.raises(InputError, match=r"measures\.csv' was not drawn by thalweg"):
        pictures.plot(tmp_path / "out", measures=True)
    assert (tmp_path / "out" / "measures.csv").read_text() == "mine\n"
    # They are of the parameter that a homotopy ends with.
    config["output"] = UNDRAWN["output"]
    staged = {**config, "homotopy": {"values": [0.5, 0.25]}}
    at_once = {**config, "objective": {"name": "t-sne", "lambda": 0.25}}
    for name, own in (("staged", staged), ("at once", at_once)):
        thalweg.run(own, tmp_path / name, comm=MPI.COMM_SELF)
        np.save(tmp_path / name / "solution.npy", np.load(tmp_path / "staged" / "solution.npy"))
        pictures.plot(tmp_path / name, measures=True)
    tables = [(tmp_path / name / "measures.csv").read_text() for name in ("staged", "at once")]
    assert tables[0] == tables[1]
    # An objective that tells nothing leaves the page as it is.
    thalweg.run({**UNDRAWN, "objective": {"name": "lle"}}, tmp_path / "lle", comm=MPI.COMM_SELF)
    assert "measures.csv" not in [f.name for f in pictures.plot(tmp_path / "lle", measures=True)]


def test_pictures_of_the_users_are_not_overwritten(tmp_path):
    compare({**UNDRAWN, "method": [{"solver": "lbfgs"}]}, tmp_path, comm=MPI.COMM_SELF)
    files = pictures.plot(tmp_path, page=True)
    drawn = ["convergence.png", "convergence.png", "embedding.png", "embedding.html"]
    assert [file.name for file in files] == drawn
    assert pictures.plot(tmp_path, page=True) == files  # its own
    for file, mine in zip(files, (b"", b"PNG", b"", b"<html>on thalweg</html>"), strict=True):
        own = file.read_bytes()
        file.write_bytes(mine)
        with pytest.raises(InputError, match=f"{file.name}' was not drawn by thalweg"):
            pictures.plot(tmp_path, page=True)
        assert file.read_bytes() == mine
        file.write_bytes(own)


@pytest.mark.parametrize(
    "problem",
    [
        {"objective": {"name": "rosenbrock"}},
        {**CONFIG, "objective": {**CONFIG["objective"], "dimensions": 1}},
    ],
)
def test_a_variable_of_one_column_is_animated_along_a_line(tmp_path, problem):
    config = {**problem, "stop": {"iterations": 2}, "output": {"animation": True}}
    thalweg.run(config, tmp_path / "run", comm=MPI.COMM_SELF)
    assert (tmp_path / "run" / "animation.gif").read_bytes().startswith(b"GIF")
    changes = ["stop.iterations=4", "output.pictures=false"]
    thalweg.run(config, tmp_path / "run", changes=changes, resume=True, comm=MPI.COMM_SELF)
    (tmp_path / "run" / "animation.gif").write_bytes(b"GIF89a of mine")
    changes[0] = "stop.iterations=5"
    result = thalweg.run(config, tmp_path / "run", changes=changes, resume=True, comm=MPI.COMM_SELF)
    assert "animation.gif' was not drawn by thalweg" in result.notes[-1]


class Panic(BaseException):
    """What extensions in Rust raise."""


def fails_on_the_last_rank(solution, dataset, comm):
    # Messages are under way when the last rank fails, which it never receives.
    if comm.rank == comm.size - 1:
        raise ValueError("only here")
    comm.bcast("left behind", root=0) if comm.rank == 0 else None
    dataset.layout.comm.bcast(["left behind"], root=0) if comm.rank == 0 else None
    return {"counted": 1}


@pytest.fixture
def metric(monkeypatch):
    """Installs a metric of a plugin, before one that works."""

    def install(measure):
        module = types.ModuleType("metrics_of_others")
        own, size = {"refined_objective": -1.0}, np.longdouble
        module.bad, module.good = measure, lambda _, __, comm: own | {"ranks": size(comm.size)}
        monkeypatch.setitem(sys.modules, module.__name__, module)
        specs = []
        for name in ("bad", "good"):
            spec = MetricSpec(name=name, summary="", load=f"{module.__name__}:{name}")
            object.__setattr__(spec, "provider", Provider("mine", "thalweg-mine", "1"))
            specs.append(spec)
        monkeypatch.setitem(plugins()._specs, MetricSpec, {spec.name: spec for spec in specs})

    return install


LOOP = []
LOOP.append(LOOP)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (Mock(side_effect=ValueError("bad\nluck")), "ValueError: bad luck"),
        (Mock(side_effect=SystemExit(0)), "SystemExit: 0"),
        (Mock(side_effect=Panic("at the disco")), "Panic: at the disco"),
        (lambda *_: {"x": object()}, "TypeError: .*JSON"),
        (lambda *_: {"x": {1, 2}}, "TypeError: .*JSON"),
        (lambda *_: {"x": LOOP}, "RecursionError"),
        (lambda *_: 3, "TypeError"),
        (lambda solution, *_: solution.sort(), "ValueError: .*read-only"),
        (lambda _, dataset, *__: dataset.values.sort(), "ValueError: .*read-only"),
        (fails_on_the_last_rank, "ValueError: only here"),
    ],
)
def test_a_metric_that_fails_is_a_note(comm, folder, metric, measure, text):
    metric(measure)
    result = thalweg.run(UNDRAWN, folder, comm=comm)
    assert (result.status.name, result.metrics["ranks"]) == ("ITERATION_LIMIT", comm.size)
    assert not {"x", "counted"} & set(result.metrics)
    note, _ = (n for n in result.notes if "metric" in n)  # one on what the objective measures too
    assert result.metrics["refined_objective"] > 0.0
    assert len(set(comm.allgather(note))) == 1
    assert note.startswith("metric 'bad' of thalweg-mine 1 (entry point 'mine') failed: ")
    assert re.search(text, note)
    facts = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert note in facts["notes"]
    assert facts["metrics"]["ranks"] == comm.size
    assert np.load(folder / "solution.npy").shape == (40, 2)


@pytest.mark.ranks(1, 2)
def test_ctrl_c_in_a_metric_is_passed_on_after_the_results_are_written(comm, folder, metric):
    metric(Mock(side_effect=KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        thalweg.run(UNDRAWN, folder, comm=comm)
    comm.Barrier()
    assert json.loads((folder / "result.json").read_text())["iterations"] == 3
    assert np.load(folder / "solution.npy").shape == (40, 2)


def test_a_picture_that_cannot_be_drawn_does_not_cost_the_run(tmp_path, monkeypatch):
    fails = Mock(side_effect=RuntimeError("no font can be found"))
    monkeypatch.setattr(pictures, "draw_convergence", fails)
    result = thalweg.run(CONFIG, tmp_path / "run", comm=MPI.COMM_SELF)
    assert "the pictures failed: RuntimeError: no font can be found" in result.notes
    assert json.loads((tmp_path / "run" / "result.json").read_text())["notes"] == list(result.notes)
    for name in ("trace.csv", "solution.npy"):
        assert (tmp_path / "run" / name).exists()
