"""A run goes on from its own checkpoint and from no other."""

import numpy as np
import pytest
import scipy.sparse

import thalweg
from thalweg.data import Dataset
from thalweg.driver import HomotopySchedule
from thalweg.errors import CheckpointError, InputError
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Layout, sketch, sum_over_ranks
from thalweg.parallel.identity import identity_texts

START = np.arange(46.0).reshape(23, 2)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solver": "gradient-descent"}, "solver was 'LBFGS' and is now 'GradientDescent'"),
        ({"memory": 4}, r"solver\.memory was 10 and is now 4"),
        ({"seed": 1}, "seed was 0 and is now 1"),
        ({"x0": START}, "seed was 0 and is now None"),
        ({"homotopy": HomotopySchedule((2.0, 1.0))}, "run: homotopy was None"),
    ],
)
def test_another_method_or_start_is_refused(comm, bowl, folder, change, message):
    rules = {"solver": "lbfgs", "checkpoint": folder}
    objective = bowl(comm)
    if "x0" in change:
        change = {"x0": objective.layout.local(change["x0"])}
    thalweg.minimize(objective, iterations=3, **rules)
    with pytest.raises(CheckpointError, match=message) as caught:
        thalweg.minimize(objective, **{**rules, **change}, resume=True)
    assert isinstance(caught.value, InputError)
    assert "\n" not in str(caught.value)


@pytest.mark.ranks(1, 2)
def test_a_given_start_is_told_from_another(comm, bowl, folder):
    objective = bowl(comm)
    rows = objective.layout.local(START)
    thalweg.minimize(objective, rows, iterations=3, checkpoint=folder)
    longer = thalweg.minimize(objective, rows, iterations=5, checkpoint=folder, resume=True)
    assert longer.trace["iteration"].tolist() == list(range(len(longer.trace)))
    with pytest.raises(CheckpointError, match="start was"):
        thalweg.minimize(objective, rows + 1.0, checkpoint=folder, resume=True)


class Ridge(Objective):
    """Half the squared distance of each row to the data, with a penalty."""

    def __init__(self, data, comm, penalty=1.0, scale=None, tool=None):
        rows = Layout(comm, 23, 2)
        super().__init__(comm, rows)
        self.data, self.penalty = rows.local(np.asarray(data())), penalty
        self.calls, self.buffer = 0, np.empty(7)  # what changes, or is never set, does not count

    def value_and_gradient(self, x):
        self.calls += 1
        squares = (x - self.data) ** 2 + self.penalty * x**2
        value = sum_over_ranks(self.comm, 0.5 * float(squares.sum()))
        return value, x - self.data + self.penalty * x


class RowsRidge(Ridge):
    """The same of this rank's rows, or of a data set."""

    def __init__(self, data, comm, penalty=1.0, scale=None, tool=None):
        Objective.__init__(self, comm, Layout(comm, 23, 2))
        self.data = data.values if isinstance(data, Dataset) else data
        self.penalty, self.calls = penalty, 0


def a_dataset(rows, comm):
    data = Dataset.from_array(rows, comm=comm)
    with pytest.raises(ValueError, match="read-only"):
        data.values.sort()  # as an objective might, whose data later measures read too
    return data


def own_rows(rows, comm):
    return Layout(comm, 23, 2).local(rows)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("given", [a_dataset, own_rows])
@pytest.mark.parametrize(
    ("rows", "change", "message"),
    [
        (10.0 * START, {}, r"whose data differ: objective\.data\S* was 'data "),
        (START[::-1].copy(), {}, "whose data differ"),
        (START, {"penalty": 2.0}, r"objective\.penalty was 1.0 and is now 2.0"),
        (START, {"scale": np.arange(4.0)}, r"objective\.scale was"),
    ],
)
def test_a_run_does_not_go_on_with_other_data(comm, folder, given, rows, change, message):
    if comm.rank == 0:  # and it may go on on other ranks
        alone = RowsRidge(given(START, MPI.COMM_SELF), MPI.COMM_SELF)
        thalweg.minimize(alone, checkpoint=folder, iterations=2)
    comm.Barrier()
    other = RowsRidge(given(rows, comm), comm, **change)
    with pytest.raises(CheckpointError, match=message):
        thalweg.minimize(other, checkpoint=folder, resume=True)
    result = thalweg.minimize(RowsRidge(given(START, comm), comm), checkpoint=folder, resume=True)
    assert result.notes == ()
    np.testing.assert_allclose(result.x, own_rows(START, comm) / 2.0, rtol=1e-3)


@pytest.mark.ranks(1, 2)
def test_functions_count_with_their_variables_and_what_is_not_seen_is_noted(comm, folder):
    def constant(rows):
        return lambda: rows

    rules = {"checkpoint": folder, "iterations": 2}
    noted = thalweg.minimize(Ridge(constant(START), comm, tool=object()), **rules).notes
    assert any("differs in objective.tool (object) alone" in note for note in noted)
    assert len(noted) == 1
    with pytest.raises(CheckpointError, match=r"data differ: objective\.data\.rows was"):
        thalweg.minimize(Ridge(constant(START + 1e-9), comm, tool=object()), **rules, resume=True)


@pytest.mark.ranks(1, 2, 3)
def test_identities_do_not_depend_on_ranks(comm):
    rows = np.arange(44.0).reshape(22, 2)

    def content(comm):
        layout = Layout(comm, 22, 2)
        own = layout.local(rows)
        return {
            "spread": own,
            "sparse": scipy.sparse.csr_matrix(own),
            "strings": own[:, 0].astype("U5"),
            "constant": np.ones(layout.local_rows),  # the same on even numbers of ranks
            "replicated": rows[:5],
            "list": [1, 2.5],
            "text": {"b": "a", "a": (None, True, 1.0)},
            "layout": layout,
            "derived": sketch(layout, own * (1.0 + 1e-15 * comm.rank)),
        }

    def texts(comm, change=None):
        return identity_texts(comm, {"x": {**content(comm), **(change or {})}})

    alone = texts(MPI.COMM_SELF)
    assert (texts(comm), alone[1]) == (alone, [])
    assert set(alone[0]) >= {"x.spread", "x.sparse.0", "x.text.a.2", "x.derived"}
    layout = Layout(comm, 22, 2)
    for name, part in content(comm).items():
        if isinstance(part, np.ndarray) and part.dtype.kind == "f":
            assert texts(comm, {name: part + 1e-9}) != alone
    for numbers in ([2**60], [2**60 + 1], [2**60 + 1, *range(30)]):  # which no float tells apart
        assert texts(comm, {"list": numbers})[0]["x.list"] == numbers
    changed = rows.copy()
    changed[3, 1] += 0.01
    for other in (np.roll(rows, 1, axis=0), 1.001 * rows, rows[:, ::-1].copy(), changed):
        assert sketch(layout, layout.local(other)) != alone[0]["x.derived"]


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(
    ("x0", "message"),
    [
        (lambda rows: rows.T.copy(), "x0 must have shape"),
        (lambda rows: rows.reshape(2, -1), "x0 must have shape"),
        (lambda rows: rows[None], "x0 must have shape"),
        (lambda rows: rows + 1j, "x0 must hold real numbers, not complex128"),
        (lambda rows: rows.astype(str), "x0 must hold real numbers, not <U32"),
        (lambda rows: [[1.0, 2.0], [3.0]], "x0 must"),
        (lambda rows: np.ma.masked_greater(rows, 3.0), "x0 have masked entries"),
        (lambda rows: np.zeros((4, 2)), "x0 must have shape"),
        (lambda rows: np.full_like(rows, np.inf), "x0 is not finite in row 0"),
    ],
)
def test_a_start_that_is_no_array_of_these_rows_is_refused(comm, bowl, x0, message):
    objective = bowl(comm)
    rows = objective.layout.local(START)
    with pytest.raises(InputError, match=message) as caught:
        thalweg.minimize(objective, x0(rows) if comm.rank == 0 else rows, iterations=1)
    assert "\n" not in str(caught.value)


@pytest.mark.ranks(1, 2)
def test_the_start_that_an_objective_proposes_is_held_to_the_same_rules(comm, bowl):
    objective = bowl(comm)
    rows = objective.layout.local(START)
    objective.initial_point = lambda seed: rows[:, ::-1].tolist()
    found = thalweg.minimize(objective, iterations=2).x
    named = rows[:, ::-1].astype(">f8")
    for x0 in (rows[:, ::-1], named, named.byteswap().view(named.dtype.newbyteorder())):
        np.testing.assert_array_equal(thalweg.minimize(objective, x0, iterations=2).x, found)
    assert rows.flags.writeable
    objective.initial_point = lambda seed: rows[1:] if comm.rank == 0 else rows
    with pytest.raises(InputError, match=r"Bowl\.initial_point must have shape"):
        thalweg.minimize(objective, iterations=2)
