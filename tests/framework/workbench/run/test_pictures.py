"""Pictures come after the results, and are no condition of them."""

import numpy as np
import pytest

import thalweg
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.workbench.run import compare, pictures

CONFIG = {
    "data": {"name": "digits", "rows": 40},
    "objective": {"name": "elastic-embedding", "perplexity": 5},
    "stop": {"iterations": 3, "decrease": 0.0},
}


def stored(tmp_path, **options):
    """A configuration whose data and labels are files."""
    points = np.random.default_rng(0).standard_normal((40, 4))
    np.savez(tmp_path / "a.npz", x=points, y=np.arange(40) % 3)
    data = {"path": str(tmp_path / "a.npz"), "key": "x", "labels": "y", **options}
    return points, {**CONFIG, "data": data}


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


def test_what_an_objective_tells_of_rows_is_a_table_and_colors_of_the_page(tmp_path):
    _, config = stored(tmp_path)
    thalweg.run({**config, "objective": {"name": "t-sne"}}, tmp_path / "out", comm=MPI.COMM_SELF)
    assert not (tmp_path / "out" / "measures.csv").exists()
    files = [file.name for file in pictures.plot(tmp_path / "out", measures=True)]
    assert files == ["convergence.png", "embedding.png", "measures.csv", "embedding.html"]
    assert len(pictures.plot(tmp_path / "out", measures=True)) == 4  # over its own
    header, *rows = (tmp_path / "out" / "measures.csv").read_text().splitlines()
    assert header.startswith("neighbors kept (share),false neighbors")
    assert len(rows) == 40
    table = np.array([row.split(",") for row in rows], dtype=float)
    assert table.shape == (40, 5)
    assert 0.0 < table[:, 0].mean() < 1.0
    assert "how far the point jumps" in (tmp_path / "out" / "embedding.html").read_text()
    (tmp_path / "out" / "measures.csv").write_text("mine\n")
    with pytest.raises(InputError, match=r"measures\.csv' was not drawn by thalweg"):
        pictures.plot(tmp_path / "out", measures=True)
    assert (tmp_path / "out" / "measures.csv").read_text() == "mine\n"
    # An objective that tells nothing leaves the page as it is.
    thalweg.run({**CONFIG, "objective": {"name": "lle"}}, tmp_path / "lle", comm=MPI.COMM_SELF)
    assert "measures.csv" not in [f.name for f in pictures.plot(tmp_path / "lle", measures=True)]


def test_pictures_of_the_users_are_not_overwritten(tmp_path):
    config = {**CONFIG, "output": {"pictures": False}, "method": [{"solver": "lbfgs"}]}
    compare(config, tmp_path, comm=MPI.COMM_SELF)
    files = pictures.plot(tmp_path, page=True)
    drawn = ["convergence.png", "convergence.png", "embedding.png", "embedding.html"]
    assert [file.name for file in files] == drawn
    assert pictures.plot(tmp_path, page=True) == files  # its own
    for file in files:
        own = file.read_bytes()
        for mine in (b"", b"<html>my notes on thalweg</html>"):
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
