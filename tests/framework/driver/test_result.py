"""What a result holds: this rank's rows, the whole when asked for, and sentences."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import thalweg
from thalweg.driver import Stop, drive
from thalweg.errors import InputError
from thalweg.interfaces import Preconditioner
from thalweg.parallel import MPI


class Telling(Preconditioner):
    """The identity, which says so."""

    def setup(self, objective, x):
        self.note("the preconditioner is the identity")
        self.note("the preconditioner is the identity")

    def apply(self, residual):
        return residual


@pytest.mark.ranks(1, 2, 3)
def test_x_and_solution_are_the_rows_of_this_rank(comm, bowl):
    class Halves(bowl):
        def solution(self, x):
            return x[:, :1] / 2

    objective = Halves(comm)
    result = thalweg.minimize(objective, iterations=3)
    n_local = objective.layout.local_rows
    assert result.x.shape == (n_local, 2)
    assert result.solution.shape == (n_local, 1)
    np.testing.assert_array_equal(result.gather(), result.gather("x")[:, :1] / 2)
    assert result.gather().shape == (23, 1)
    with pytest.raises(InputError, match="'solution' or 'x', not 'y'"):
        result.gather("y")


def test_metrics_that_take_long_can_be_left_out(bowl, heavy_ball):
    class Measured(bowl):
        def metrics(self, x):
            return {"norm": self.layout.norm(x)}

    objective = Measured(MPI.COMM_SELF)
    start = objective.layout.local(np.ones((23, 2)))
    given = (objective, heavy_ball())
    assert not drive(*given, start.copy(), stop=Stop(iterations=2), measure=False).metrics
    assert drive(*given, start, stop=Stop(iterations=2)).metrics["norm"] > 0


@pytest.mark.ranks(1, 2)
def test_a_pickled_result_says_what_it_no_longer_knows(comm, bowl):
    result = thalweg.minimize(bowl(comm), iterations=3)
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.x, result.x)
    assert again.message == result.message
    assert again.trace.columns == result.trace.columns
    if comm.size == 1:
        np.testing.assert_array_equal(again.gather(), result.x)
    else:
        with pytest.raises(InputError, match="gather before pickling"):
            again.gather()


@pytest.mark.ranks(1, 2)
def test_notes_of_all_parts_are_told_once_each(comm, bowl, caplog):
    objective = bowl(comm)
    objective.note("the objective fell back")
    objective.note("the objective fell back")
    result = thalweg.minimize(objective, preconditioner=Telling(), iterations=2)
    assert result.notes == ("the objective fell back", "the preconditioner is the identity")
    assert caplog.messages == (["the objective fell back"] if comm.rank == 0 else [])


def test_a_value_is_trusted_to_a_few_rounding_units(bowl):
    objective = bowl(MPI.COMM_SELF)
    assert 0 < objective.value_error(-3.0) < 1e-14
    assert objective.value_error(0.0) == 0.0


@pytest.mark.ranks(1, 2)
def test_a_run_writes_the_whole_solution_and_its_notes(comm, tmp_path_factory):
    out = comm.bcast(tmp_path_factory.mktemp("run") if comm.rank == 0 else None)
    config = {
        "data": {"name": "digits", "rows": 30},
        "objective": {"name": "elastic-embedding", "perplexity": 5},
        "stop": {"iterations": 2},
        "output": {"pictures": False},
    }
    result = thalweg.run(config, out, comm=comm)
    whole = result.gather()
    comm.Barrier()
    np.testing.assert_array_equal(np.load(out / "solution.npy"), whole)
    assert json.loads((out / "result.json").read_text())["notes"] == list(result.notes)


@pytest.mark.ranks(1, 2)
def test_a_result_is_printed_in_four_lines(comm, bowl):
    result = thalweg.minimize(bowl(comm), iterations=3, gradient=0.0, decrease=None)
    printed = repr(result).splitlines()
    assert len(printed) == 4
    assert printed[0].endswith(result.message)
    assert f"{result.iterations} iterations, {result.evaluations} evaluations" in printed[2]
    assert "23 x 2" in printed[3]
    assert result._repr_html_().count("<tr>") == 4
