"""What a result holds: this rank's rows, the whole when asked for, and sentences."""

import pickle

import numpy as np
import pytest

import thalweg
from thalweg.errors import InputError
from thalweg.interfaces import Preconditioner


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
