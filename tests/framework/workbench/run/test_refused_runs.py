"""A run that is refused after it began leaves nothing that stands in the next one's way."""

import numpy as np
import pytest

import thalweg
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg.workbench.memory import require_vectors


def clustering(tmp_path, solver):
    points = np.random.default_rng(0).standard_normal((30, 4))
    np.save(tmp_path / "points.npy", points)
    np.savetxt(tmp_path / "given.csv", np.arange(30) % 2, fmt="%d")
    return {
        "data": {"path": str(tmp_path / "points.npy"), "labels": str(tmp_path / "given.csv")},
        "objective": {"name": "kdac", "clusters": 2, "components": 2},
        "solver": {"name": solver},
        "stop": {"iterations": 3},
    }


def test_the_folder_is_free_again(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="on no manifold"):
        thalweg.run(clustering(tmp_path, "lbfgs"), out)
    assert not out.exists()
    thalweg.run(clustering(tmp_path, "ism"), out)
    assert (out / "result.json").exists()


QUICK = {
    "objective": {"name": "rosenbrock"},
    "solver": {"name": "gradient-descent"},
    "stop": {"iterations": 1},
}


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["solution.npy", "trace.csv", "convergence.png", "result.json"])
def test_files_that_a_run_would_overwrite_stay(tmp_path, name, resume):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=name):
        thalweg.run(QUICK, tmp_path, resume=resume)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, "mine")]


def test_a_variable_beyond_memory_or_indices_is_refused_before_it_is_made():
    with pytest.raises(InputError, match=r"would take .* GiB, but .* use fewer rows"):
        require_vectors(Layout(MPI.COMM_SELF, 2**29, 3), count=10**6)
    with pytest.raises(InputError, match="use fewer rows"):
        require_vectors(Layout(MPI.COMM_SELF, 2**40, 2**20))
