"""Maps written into AnnData are where scanpy looks for them, and nothing else changes."""

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg.workbench.report import write_obsm

h5py = pytest.importorskip("h5py")
PLACES = np.arange(24.0).reshape(12, 2)


class Annotated:
    """What counts of an AnnData."""

    n_obs = 12

    def __init__(self):
        self.obsm = {}


@pytest.fixture
def cells(tmp_path):
    with h5py.File(tmp_path / "cells.h5ad", "w") as file:
        file["obs/names"] = np.arange(12)
        file["obs"].attrs["_index"] = "names"
        file["X"] = np.random.default_rng(0).normal(size=(12, 5)) + np.repeat([0, 9], 6)[:, None]
    return tmp_path / "cells.h5ad"


def test_a_map_is_replaced_only_when_asked_and_refusals_leave_the_file_as_it_was(cells):
    (link := cells.with_name("link.h5ad")).symlink_to(cells)
    data = Annotated()
    for target in (link, data):
        write_obsm(target, "X_tsne", PLACES)
        for name, places, words in (
            ("X_tsne", PLACES, "'X_tsne' already"), ("X_umap", PLACES[1:], "12 rows, the map has"),
        ):  # fmt: skip
            with pytest.raises(InputError, match=words):
                write_obsm(target, name, places)
        write_obsm(target, "X_tsne", -PLACES, overwrite=True)
    np.testing.assert_array_equal(data.obsm["X_tsne"], -PLACES)
    assert link.is_symlink()
    assert {path.name for path in cells.parent.iterdir()} == {"cells.h5ad", "link.h5ad"}
    with h5py.File(cells) as file:
        np.testing.assert_array_equal(file["obsm/X_tsne"], -PLACES)
        assert file["obsm/X_tsne"].attrs["encoding-type"] == "array"
        assert [*file["obsm"]] == ["X_tsne"]


def test_what_is_no_file_of_annotated_data_is_refused(tmp_path):
    (tmp_path / "text.h5ad").write_text("x")
    with h5py.File(tmp_path / "other.h5ad", "w") as file:
        file["obs"] = np.zeros(12)
    for name, words in (("no", "no .h5ad"), ("text", "no .h5ad"), ("other", "no file of AnnData")):
        with pytest.raises(InputError, match=words):
            write_obsm(tmp_path / f"{name}.h5ad", "X_tsne", PLACES)


def test_plot_writes_the_map_of_a_run_into_the_file_of_its_data(cells, thalweg_command):
    (cells.parent / "c.toml").write_text(
        '[data]\npath = "cells.h5ad"\n[objective]\nname = "t-sne"\n[stop]\niterations = 5\n'
    )
    assert thalweg_command("run", "c.toml", "--out", "out", folder=cells.parent).returncode == 0
    for more, code in ([], 0), ([], 2), (["--overwrite"], 0):
        plotted = thalweg_command("plot", "out", "--obsm", "X_tsne", *more, folder=cells.parent)
        assert plotted.returncode == code, plotted.stderr
    solution = np.load(cells.parent / "out/solution.npy")
    with h5py.File(cells) as file:
        np.testing.assert_array_equal(file["obsm/X_tsne"], solution)
    config = '[data]\nname="iris"\nrows=20\n[objective]\nname="pacmap"\n[stop]\niterations=2\n'
    (cells.parent / "c.toml").write_text(config)
    assert thalweg_command("run", "c.toml", "--out", "iris", folder=cells.parent).returncode == 0
    plotted = thalweg_command("plot", "iris", "--obsm", "X_tsne", folder=cells.parent)
    assert plotted.returncode == 2
    assert "--obsm is for a single run" in plotted.stderr
