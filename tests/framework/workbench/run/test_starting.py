"""A run starts at the point of a file, on any number of ranks, or says what is wrong with it."""

import numpy as np
import pytest
import tomli_w

import thalweg
from thalweg.errors import InputError
from thalweg.parallel import MPI

CONFIG = {
    "data": {"name": "digits", "rows": 60},
    "objective": {"name": "elastic-embedding", "perplexity": 8},
    "stop": {"iterations": 3, "decrease": 0.0},
    "output": {"pictures": False},
}
POINT = np.random.default_rng(0).standard_normal((60, 2))


def started_at(path, **stop):
    return {**CONFIG, "run": {"start": str(path)}, "stop": {**CONFIG["stop"], **stop}}


def saved(folder, point=POINT):
    np.save(folder / "start.npy", point)
    return folder / "start.npy"


@pytest.mark.ranks(2, 3)
def test_the_given_point_is_the_same_on_any_number_of_ranks(comm, tmp_path):
    path = comm.bcast(saved(tmp_path) if comm.rank == 0 else None)
    together = thalweg.run(started_at(path), comm=comm)
    alone = thalweg.run(started_at(path), comm=MPI.COMM_SELF)
    assert together.objective == pytest.approx(alone.objective, rel=1e-10)
    comm.barrier()


def test_a_file_beside_the_configuration_is_found(tmp_path, monkeypatch):
    saved(tmp_path)
    config = {**CONFIG, "run": {"start": "start.npy"}, "stop": {"iterations": 0}}
    (tmp_path / "c.toml").write_text(tomli_w.dumps(config))
    monkeypatch.chdir("/")
    assert np.array_equal(thalweg.run(tmp_path / "c.toml", comm=MPI.COMM_SELF).x, POINT)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (POINT[:-1], r"must have shape \(60, 2\), not \(59, 2\)"),
        (np.where(np.arange(60)[:, None] == 7, np.nan, POINT), "not finite in row 7"),
        (np.full((60, 2), "a"), "must hold real numbers"),
    ],
)
def test_a_point_that_cannot_be_used_is_refused(tmp_path, point, message):
    with pytest.raises(InputError, match=message):
        thalweg.run(started_at(saved(tmp_path, point)), comm=MPI.COMM_SELF)
