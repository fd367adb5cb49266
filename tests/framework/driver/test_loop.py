"""The driver's loop: records, ends, callbacks, results, and homotopies whose steps adapt."""

import io
import math
import pickle
import sys

import numba
import numpy as np
import pytest
import threadpoolctl
from tqdm import tqdm

import thalweg
from thalweg.driver import HomotopySchedule, Stop, drive, progress
from thalweg.engines.hessian import HessianProduct
from thalweg.errors import CapabilityError, InputError
from thalweg.interfaces import Preconditioner
from thalweg.parallel import MPI
from thalweg.result import Status


@pytest.mark.ranks(1, 2, 3)
def test_first_and_last_iterate_are_recorded_once_each(comm, bowl, heavy_ball):
    result = thalweg.minimize(bowl(comm), solver=heavy_ball(), iterations=7, decrease=0.0)
    assert result.trace["iteration"].tolist() == list(range(8))
    assert result.trace["objective"][-1] == result.objective
    assert result.trace["evaluations"].tolist() == list(range(1, 9))
    assert np.all(np.diff(result.trace["seconds"]) >= 0)
    assert result.trace["speed"][0] == 0
    assert (result.trace["speed"][1:] > 0).all()
    assert (result.trace["lambda"] == 1.0).all()


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({"iterations": 3}, Status.ITERATION_LIMIT),
        ({"iterations": 0}, Status.ITERATION_LIMIT),
        ({"evaluations": 5}, Status.EVALUATION_LIMIT),
        ({"seconds": 0.0}, Status.TIME_LIMIT),
        ({"gradient": 1e-3}, Status.SMALL_GRADIENT),
        ({"decrease": 1e-3}, Status.SMALL_DECREASE),
    ],
)
def test_each_rule_stops_the_run_with_its_own_status(comm, bowl, heavy_ball, rule, status):
    result = thalweg.minimize(bowl(comm), solver=heavy_ball(), **{"decrease": None, **rule})
    assert result.status is status
    if "iterations" in rule:
        assert result.iterations == rule["iterations"]
    if "gradient" in rule:
        assert result.trace["gradient_norm"][-1] <= 1e-3 < result.trace["gradient_norm"][-2]


@pytest.mark.ranks(1, 2, 3)
def test_a_callback_on_any_rank_stops_all(comm, bowl, heavy_ball):
    seen = []

    def callback(iterate):
        seen.append(iterate.iteration)
        assert iterate.rows.shape[1] == 2
        return comm.rank == comm.size - 1 and iterate.iteration == 4

    result = thalweg.minimize(bowl(comm), solver=heavy_ball(), callback=callback)
    assert result.status is Status.CALLBACK
    assert seen == [0, 1, 2, 3, 4]


@pytest.mark.ranks(1, 2)
def test_homotopy_visits_each_value_and_ends_at_the_last(comm, bowl, heavy_ball):
    objective = bowl(comm)
    schedule = HomotopySchedule((4.0, 2.0, 1.0), Stop(iterations=40, decrease=1e-4))
    result = thalweg.minimize(
        objective, solver=heavy_ball(rate=0.03), homotopy=schedule, gradient=1e-6, decrease=None
    )
    assert objective.visited == [4.0, 2.0, 1.0]
    assert np.allclose(result.x, 1.0, atol=1e-5)
    assert sorted(set(result.trace["lambda"]), reverse=True) == [4.0, 2.0, 1.0]
    assert (np.diff(result.trace["evaluations"]) > 0).all()
    assert result.trace.homotopy_parameter == "lambda"
    stages, wanted = result.trace["stage"], result.trace["wanted_objective"]
    np.testing.assert_array_equal(4.0 / 2.0**stages, result.trace["lambda"])
    np.testing.assert_array_equal(wanted[stages == 2.0], result.trace["objective"][stages == 2.0])
    assert np.isnan(wanted[stages < 2.0]).all()  # this objective does not tell it
    assert result.notes == ()
    stopped = {"homotopy": schedule, "callback": lambda at: at.iteration == 3}
    early = thalweg.minimize(bowl(comm), solver=heavy_ball(), **stopped)
    assert "stopped before the last stage (1 of 3), at lambda = 4 instead" in early.notes[0]
    assert early.stages_left == 2
    assert math.isnan(early.wanted_objective)
    own = objective.homotopy_parameter
    short = {"homotopy": HomotopySchedule((4.0, 2.0)), "iterations": 9}
    thalweg.minimize(objective, solver=heavy_ball(rate=0.03), **short)
    assert objective.homotopy_parameter == own  # and the next run is one of the same objective


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    ("budget", "last"),
    [
        ({"iterations": 0}, 1), ({"iterations": 1}, 2), ({"iterations": 3}, 1),
        ({"iterations": 20}, 4), ({"iterations": 200}, 80), ({"evaluations": 20}, 3),
        ({"seconds": 0.0}, 1),
    ],
)  # fmt: skip
def test_any_budget_leaves_the_last_stage_a_fifth(comm, bowl, heavy_ball, budget, last):
    schedule = HomotopySchedule((4.0, 2.0, 3.0, 1.0), Stop(iterations=40, decrease=None))
    objective = bowl(comm)
    rules = {"solver": heavy_ball(), "homotopy": schedule, "decrease": None}
    result = thalweg.minimize(objective, **rules, **budget)
    assert (objective.homotopy_parameter, result.stages_left) == (1.0, 0)
    assert result.objective == result.wanted_objective == result.trace["objective"][-1]
    assert (result.trace["lambda"] == 1.0).sum() == last
    assert any("ended early" in note for note in result.notes) == (last != 80)


def test_a_logarithmic_schedule_has_the_ends_asked_for():
    values = HomotopySchedule.logarithmic(1e-4, 1e2, 50).values
    assert len(values) == 50
    assert (values[0], values[-1]) == (pytest.approx(1e-4, rel=1e-12), 1e2)
    assert np.allclose(np.diff(np.log(values)), np.log(values[1] / values[0]))


def test_a_missing_capability_is_refused_by_name_before_any_work(bowl, heavy_ball):
    class Needy(heavy_ball):
        requires = (HessianProduct,)

    objective = bowl(MPI.COMM_SELF)
    with pytest.raises(CapabilityError, match="Hessian product"):
        drive(objective, Needy(), objective.initial_point(0))


@pytest.mark.parametrize(("terms", "threads"), [(1_000.0, 1), (math.inf, 2)])
def test_a_run_has_one_thread_where_evaluations_are_small(
    monkeypatch, bowl, heavy_ball, terms, threads
):
    class Problem(bowl):
        pass

    Problem.terms = terms
    set_threads, seen = [2], []
    monkeypatch.setattr(numba, "get_num_threads", lambda: set_threads[-1])
    monkeypatch.setattr(numba, "set_num_threads", set_threads.append)

    def look(_):
        pools = threadpoolctl.threadpool_info()
        seen.append({set_threads[-1], *(pool["num_threads"] for pool in pools)})

    with threadpoolctl.threadpool_limits(limits=2):
        before = threadpoolctl.threadpool_info()
        thalweg.minimize(Problem(MPI.COMM_SELF), None, heavy_ball(), callback=look, iterations=1)
        assert threadpoolctl.threadpool_info() == before
    assert (seen, set_threads[-1]) == ([{threads}, {threads}], 2)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("known", [False, True])
def test_the_bar_shows_the_stage_and_the_wanted_objective(bowl, heavy_ball, monkeypatch, known):
    class Told(bowl):
        def value_at(self, parameter, value):
            return 1000.0 + value if known else float("nan")

    texts = []
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(tqdm, "set_postfix_str", lambda bar, text, **_: texts.append(text))
    homotopy = HomotopySchedule((4.0, 1.0), Stop(iterations=2, decrease=None))
    result = thalweg.minimize(
        Told(MPI.COMM_SELF), solver=heavy_ball(), homotopy=homotopy, iterations=5, progress=True
    )
    values = result.trace["wanted_objective" if known else "objective"]
    expected = [f"stage {n}/2 f={value:.6g}" for n, value in zip("11222", values[1:], strict=True)]
    assert [text.split(" |g|=")[0] for text in texts] == expected


@pytest.mark.ranks(1, 2)
def test_a_log_gets_a_line_now_and_then(comm, bowl, heavy_ball, monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    thalweg.minimize(bowl(comm), solver=heavy_ball(), iterations=3, decrease=None, progress=True)
    assert [line.split(" after ")[0] for line in log.getvalue().splitlines()] == (
        [f"thalweg: iteration {n}" for n in (1, 2, 3)] if comm.rank == 0 else []
    )
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 3600.0)
    log.truncate(0)
    log.seek(0)
    thalweg.minimize(bowl(comm), solver=heavy_ball(), iterations=3, decrease=None, progress=True)
    assert log.getvalue() == ""
    log.close()
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    result = thalweg.minimize(bowl(comm), solver=heavy_ball(), iterations=3, progress=True)
    assert result.iterations == 3


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
    assert (result.x.shape, result.solution.shape) == ((n_local, 2), (n_local, 1))
    np.testing.assert_array_equal(result.gather(), result.gather("x")[:, :1] / 2)
    assert result.gather().shape == (23, 1)
    with pytest.raises(InputError, match="'solution' or 'x', not 'y'"):
        result.gather("y")


@pytest.mark.ranks(1, 2)
def test_a_pickled_result_says_what_it_no_longer_knows(comm, bowl):
    result = thalweg.minimize(bowl(comm), iterations=3)
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.x, result.x)
    assert (again.message, again.trace.columns) == (result.message, result.trace.columns)
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
    sentences = iter("ab")
    objective.metrics = lambda x: objective.note(next(sentences)) or {}
    told = [thalweg.minimize(objective, iterations=2).notes[1:] for _ in range(2)]
    assert told == [("a",), ("b",)]  # what is noted in a run is told of it alone
    kind = type("Own", (type(objective),), {"notes": property(lambda self: ("its own",))})
    objective.__class__, objective.metrics = kind, lambda x: {}
    assert thalweg.minimize(objective, iterations=2).notes == ("its own",)


LOGARITHMIC = HomotopySchedule.logarithmic(1.0, 27.0, 9).values


class Diagonal(Preconditioner):
    """The Hessian of a bowl."""

    def setup(self, objective, x):
        self.weights = 1.0 + np.arange(objective.layout.start, objective.layout.stop)[:, None]

    def apply(self, residual):
        return residual / self.weights


@pytest.fixture
def counted(bowl):
    """A bowl that counts what it is asked, without Hessian products and with them."""

    class Counted(bowl):
        evaluations = products = 0

        def value_and_gradient(self, x):
            self.evaluations += 1
            return super().value_and_gradient(x)

    class WithProducts(Counted, HessianProduct):
        def hessian_product(self, x, direction):
            self.products += 1
            return (1.0 + np.arange(self.layout.start, self.layout.stop)[:, None]) * direction

    return Counted, WithProducts


def followed(objective, values, **given):
    rules = {"solver": "gradient-descent", "preconditioner": Diagonal(), "decrease": 1e-12, **given}
    schedule = HomotopySchedule(values, Stop(decrease=1e-6, window=1), 0.1)
    return thalweg.minimize(objective, np.zeros(objective.layout.shape), homotopy=schedule, **rules)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    ("products", "values"), [(True, (1.0, 1.7, 27.0)), (True, LOGARITHMIC), (False, LOGARITHMIC)]
)  # fmt: skip
def test_steps_follow_the_error_of_what_is_predicted(comm, counted, products, values):
    objective = counted[products](comm)
    result = followed(objective, values)
    np.testing.assert_allclose(result.x, 27.0, rtol=1e-6)
    minima = np.unique(result.trace["lambda"])
    assert (minima[0], minima[-1]) == (1.0, 27.0)
    ratio = minima[1:] / minima[:-1]
    # The tangent is one in the logarithm of the parameter.
    errors = ratio - 1.0 - products * np.log(ratio)
    assert errors.max() <= 0.2
    assert errors[1:-1].min() > 0.02
    tried = set(objective.visited) - set(minima)
    assert len(tried) == (values != LOGARITHMIC or not products)  # a step that was too long
    assert result.evaluations == objective.evaluations
    assert result.trace["tangent_products"][-1] == objective.products
    assert (objective.products > 0) == products


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("stopped_at", [3, 6])
def test_an_adaptive_homotopy_resumes_to_the_bit(comm, counted, folder, stopped_at):
    options = {"solver": "lbfgs", "iterations": 30}
    whole = followed(counted[True](comm), LOGARITHMIC, **options)
    options["checkpoint"] = folder
    stop = {"callback": lambda at: at.iteration == stopped_at}
    followed(counted[True](comm), LOGARITHMIC, **options, **stop)
    resumed = followed(counted[True](comm), LOGARITHMIC, **options, resume=True)
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert len(np.unique(whole.trace["stage"] % 1.0)) > 2
    for column in ("evaluations", "objective", "stage", "lambda", "tangent_products"):
        np.testing.assert_array_equal(resumed.trace[column], whole.trace[column])


def test_an_adaptive_homotopy_needs_two_values_and_a_metric(comm, counted):
    with pytest.raises(InputError, match=r"two values or more, and an error .*not \[1.0\] and 0.1"):
        followed(counted[True](comm), (1.0,))
    for given in ({"preconditioner": "identity"}, {"solver": "scipy:CG", "preconditioner": None}):
        with pytest.raises(InputError, match="in the metric of a preconditioner: choose"):
            followed(counted[True](comm), (1.0, 27.0), **given)
