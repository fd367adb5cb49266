"""Every solver reaches its target, certified, and says so when it cannot."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.datasets import load_iris

import thalweg
from thalweg import Status
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.plugins import SolverSpec, plugins
from thalweg.testing import check_gradient, check_hessian_product, check_resumption
from thalweg_isometry import normal_equations, numax
from thalweg_isometry.active import ActiveSecants, holders, measured
from thalweg_isometry.hessian_descent import GaussianMaps
from thalweg_isometry.hinge import HingeSearch
from thalweg_isometry.kept_neighbors import KeptNeighbors
from thalweg_isometry.map_ranks import eigengap_rank
from thalweg_isometry.near_isometry import NearIsometry

COLUMN_METHODS = ["hinge-lbfgs", "numax", "fromax", "nile-pro"]
METHODS = [*COLUMN_METHODS, "secant-avoidance", "secant-pca"]

#: Fewer iterations than users get, where an attempt fails by its limit.
QUICK = {"fromax": {"limit": 200}, "nile-pro": {"limit": 600}}

#: Still fewer, where each costs messages between the ranks.
SHORT = {
    "fromax": {"limit": 50}, "nile-pro": {"limit": 150}, "secant-avoidance": {"limit": 100},
}  # fmt: skip


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("solver", METHODS)
def test_a_wanted_delta_is_reached_over_all_secants(comm, digits, solve, solver):
    result = solve(digits[:20], 0.4, None, solver, comm, **SHORT.get(solver, {}))
    assert result.status is Status.CONVERGED
    assert result.metrics["rank"] < 25
    assert 1 <= result.metrics["rank_lower_bound"] <= result.metrics["rank"]
    assert result.metrics["n_secants"] == 20 * 19 // 2
    assert (result.trace["active"][1:] >= 0).all()


@pytest.mark.parametrize("rank", [None, 12])
@pytest.mark.parametrize("solver", COLUMN_METHODS)
def test_column_generation_from_few_points_ends_with_few_active_secants(
    digits, solve, solver, rank
):
    options = {"all_below": 0, "cuts_per_round": 100, "smallest_subset": 15}
    result = solve(digits[:60], 0.4, rank, solver, **options, **QUICK.get(solver, {}))
    assert result.status is Status.CONVERGED
    assert len(result.solution) <= 16
    assert len(np.unique(result.trace["points"])) > 1
    assert result.trace["active"][-1] < 0.7 * 60 * 59 / 2


@pytest.mark.parametrize(
    ("rows", "delta", "rank", "options"),
    [
        # At a given rank it fits more than its cuts.
        (90, 0.4, 8, {"all_below": 0, "cuts_per_round": 100}),
        (90, 0.4, 8, {"all_below": 0, "cuts_per_round": 10**12}),
        # Balanced penalties stand still, and small residuals are no failure.
        (30, 0.05, None, {"iterations": 12}),
        (20, 0.03, None, {"tolerance": 3e-3, "iterations": 20}),
    ],
)
def test_numax_reaches_its_target(digits, solve, rows, delta, rank, options):
    assert solve(digits[:rows], delta, rank, "numax", **options).status is Status.CONVERGED


def test_numax_gives_up_so_long_after_the_lowest_delta(digits, solve, monkeypatch):
    monkeypatch.setattr(numax, "STALLED_AFTER", 10)
    run = solve(digits[:40], 0.4, 4, "numax", sweep=1, all_below=1000)
    assert run.evaluations == 10 + np.nanargmin(run.trace["active_delta"])


def least_trace(points, delta):
    """Least tr P with |v'Pv - 1| <= delta and P >= 0, by cutting planes of the cone."""
    i, j = np.triu_indices(len(points), 1)
    v = points[i] - points[j]
    v /= np.linalg.norm(v, axis=1)[:, None]
    upper = np.triu_indices(points.shape[1])
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)

    def forms(rows):
        return rows[:, upper[0]] * rows[:, upper[1]] * twice

    trace = (upper[0] == upper[1]).astype(float)
    matrix = np.vstack([forms(v), -forms(v)])
    limits = np.concatenate([np.full(len(v), 1 + delta), np.full(len(v), delta - 1)])
    while True:
        program = linprog(trace, A_ub=matrix, b_ub=limits, bounds=(-2 * len(v), 2 * len(v)))
        p = np.zeros(2 * points.shape[1:])
        p[upper] = program.x
        values, vectors = np.linalg.eigh(p + np.triu(p, 1).T)
        if values[0] > -1e-7:
            return program.fun
        matrix = np.vstack([matrix, -forms(vectors.T[values < 0])])
        limits = np.concatenate([limits, np.zeros((values < 0).sum())])


@pytest.mark.parametrize(("steps", "aim"), [("joint", 0.98), ("published", 1.0)])
def test_numax_finds_the_least_nuclear_norm(secants_of, steps, aim):
    points = np.random.default_rng(0).standard_normal((10, 4))
    problem = NearIsometry(secants_of(points, MPI.COMM_SELF), 0.3, None)
    result = thalweg.minimize(problem, solver="numax", steps=steps, tolerance=1e-6)
    assert (result.solution**2).sum() == pytest.approx(least_trace(points, 0.3 * aim), rel=1e-4)
    assert result.metrics["delta"] == pytest.approx(0.3 * aim, rel=1e-4)


@pytest.mark.ranks(1, 3)
def test_long_secants_lead_to_the_same_nuclear_norm_over_the_ranks(comm, secants_of, monkeypatch):
    for module in (numax, normal_equations):
        monkeypatch.setattr(module, "LONG", 4)
    points = np.random.default_rng(0).standard_normal((10, 4))
    result = thalweg.minimize(NearIsometry(secants_of(points, comm), 0.3, None), solver="numax")
    assert (result.solution**2).sum() == pytest.approx(least_trace(points, 0.294), rel=1e-3)


@pytest.mark.parametrize(("solver", "rank"), [("fromax", 9), ("numax", None)])
def test_steps_as_published_come_within_their_tolerance_of_delta(digits, solve, solver, rank):
    result = solve(digits[:20], 0.3, rank, solver, steps="published", limit=3000)
    assert result.metrics["delta"] < 0.305


def test_the_own_method_needs_no_more_rank_than_the_published_ones(digits, solve):
    runs = {each: solve(digits[:20], 0.3, None, each, **QUICK.get(each, {})) for each in METHODS}
    ranks = {name: run.metrics["rank"] for name, run in runs.items()}
    assert ranks["hinge-lbfgs"] == min(ranks.values())
    assert ranks["secant-pca"] > ranks["hinge-lbfgs"]


def test_every_adjustment_agrees_on_the_rank(digits, solve):
    adjustments = "bracket", "published", "eigengap"
    ranks = [solve(digits[:40], 0.4, adjust=each).metrics["rank"] for each in adjustments]
    assert max(ranks) - min(ranks) <= 1


def test_the_eigengap_is_where_eigenvalues_fall_by_the_largest_factor():
    psi = np.diag([9.0, 5.0, 4.9, 4.8, 1.0, 0.9])[::-1]
    assert [eigengap_rank(psi, low, 5) for low in (1, 2, 5)] == [4, 4, 5]
    assert eigengap_rank(psi, 1, 3) == 1


def test_a_failed_attempt_is_repeated_from_its_map_with_noise(digits, solve):
    some, options = digits[:30], {"start_rank": 3, "limit": 60, "sweep": 60}
    plain = solve(some, 0.2, 3, "nile-pro", **options)
    perturbed = solve(some, 0.2, 3, "nile-pro", perturbations=2, **options)
    assert perturbed.evaluations == 3 * plain.evaluations
    assert perturbed.metrics["delta"] < plain.metrics["delta"]


@pytest.mark.parametrize("solver", ["hinge-lbfgs", "nile-pro", "secant-pca", "random-projection"])
def test_a_wanted_rank_leaves_delta_free(digits, solve, solver):
    options = {"limit": 300} if solver == "nile-pro" else {}
    result = solve(digits[:40], None, 9, solver, precision=0.1, **options)
    assert result.status is Status.CONVERGED
    if solver == "hinge-lbfgs":
        assert result.metrics["delta"] < 0.35


def test_adagio_projects_what_principal_directions_leave(digits, solve):
    leading, rest = np.split(solve(digits[:40], None, 8, "adagio").solution, 2)
    np.testing.assert_allclose(np.vstack([leading, rest]) @ leading.T, np.eye(8, 4), atol=1e-9)


@pytest.mark.ranks(1, 2)
def test_a_delta_out_of_reach_is_said_and_the_best_found_returned(comm, digits, solve):
    result = solve(digits, 0.05, 3, comm=comm, max_evaluations=60)
    assert result.status is Status.TARGET_NOT_REACHED
    assert result.status.exit_code == 0


def test_fromax_ends_where_its_matrix_and_its_factor_agree(digits, solve):
    loose = solve(digits[:14], 0.1, 3, "fromax", tolerance=1e3, limit=400)
    assert loose.evaluations < solve(digits[:14], 0.1, 3, "fromax", limit=400).evaluations <= 400
    assert not any("limit" in note for note in loose.notes)


@pytest.mark.parametrize("solver", ["fromax", "nile-pro", "secant-pca"])
@pytest.mark.parametrize("adjust", ["published", "bracket"])
def test_a_first_rank_that_is_too_low_is_raised(solve, solver, adjust):
    petals = load_iris(return_X_y=True)[0][:60]  # whose fourth principal direction matters
    options = {"adjust": adjust, "start_rank": 2, **QUICK.get(solver, {})}
    result = solve(petals, 0.4, None, solver, **options)
    assert result.status is Status.CONVERGED
    assert len(result.solution) == 4


def test_the_published_search_raises_the_rank_by_a_fifth_and_lowers_it_by_one(digits, solve):
    result = solve(digits, 0.3, None, "secant-pca", adjust="published", start_rank=6)
    tried = [6, 8, 10, 12, 15, 18, 22, 27, 26, 25, 24, 23]
    assert (result.trace["target_rank"][:-1].tolist(), len(result.solution)) == (tried, 23)


@pytest.mark.ranks(2, 3)
def test_the_first_active_set_is_the_same_at_any_number_of_ranks(comm, digits, secants_of):
    found = []
    for where in (comm, MPI.COMM_SELF):
        objective = NearIsometry(secants_of(digits, where), 0.3, 8)
        solver = HingeSearch(all_below=0, cuts_per_round=300)
        state = solver.init(objective, objective.initial_point(0))
        own = np.column_stack([state.cuts.pairs, state.cuts.lengths])
        cuts = np.concatenate(where.allgather(own))
        found.append(cuts[np.lexsort(cuts.T)])
    np.testing.assert_array_equal(*found)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("solver", [*COLUMN_METHODS, "candidate-rounds"])
def test_an_interrupted_run_resumes_to_the_bit(comm, digits, secants_of, solver):
    kind = plugins().find(SolverSpec, solver)[0].resolve()
    options = {"all_below": 0, "cuts_per_round": 60, **SHORT.get(solver, {})}
    secants = secants_of(digits[:20], comm)
    goal = KeptNeighbors(secants, 3, 6, 1.0) if solver == "candidate-rounds" else None
    objective = NearIsometry(secants, None if goal else 0.4, None, goal)
    check_resumption(lambda: kind(**options), objective, objective.initial_point(0), steps=3)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("alone", ["before", "after"])
def test_a_run_goes_on_with_its_cuts_on_another_number_of_ranks(
    comm, digits, secants_of, folder, alone
):
    counts = []

    def run(where, **more):
        secants = secants_of(digits[:30], where)

        def check(iterate):
            pairs = iterate.state.cuts.pairs
            if counts:  # in the first step after a resumption they go to their places
                assert (holders(secants.layout, pairs) == where.rank).all()
            every = np.concatenate(where.allgather(pairs))
            assert len(np.unique(every, axis=0)) == len(every)
            counts.append(len(every))

        return thalweg.minimize(
            NearIsometry(secants, 0.4, 6), solver="hinge-lbfgs", all_below=0, cuts_per_round=40,
            checkpoint=folder, callback=check, **more,
        )  # fmt: skip

    first, second = (comm, MPI.COMM_SELF) if alone == "after" else (MPI.COMM_SELF, comm)
    if first is comm or comm.rank == 0:
        run(first, iterations=2)
    comm.barrier()
    if second is comm or comm.rank == 0:
        counts.clear()
        assert run(second, resume=True).metrics["delta"] <= 0.4
        assert len(counts) > 1


@pytest.fixture
def points():
    return np.random.default_rng(3).standard_normal((12, 10)) * np.exp(-np.arange(10) / 6.0)


@pytest.fixture
def active(points, secants_of):
    def build(comm):
        secants = secants_of(points, comm)
        pairs = np.array(np.triu_indices(12, 1)).T
        pairs = pairs[holders(secants.layout, pairs) == comm.rank]
        return ActiveSecants(secants, *measured(secants, pairs))

    return build


def test_the_value_is_how_many_secants_random_maps_miss(active, points):
    secants = active(MPI.COMM_SELF)
    maps = GaussianMaps(secants, (5, 10), 0.4, 0.03)
    x = maps.initial_point(0)
    random = np.random.default_rng(7)
    missed = [
        (np.abs(secants.ratios(secants.images(a)) - 1.0) > 0.4).sum()
        for a in x + np.sqrt(0.03) * random.standard_normal((2000, 5, 10))
    ]
    assert abs(maps.value(x) - np.mean(missed)) < 4.0 * (np.std(missed) / np.sqrt(len(missed)))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("variance", [0.15, 0.01])
def test_derivatives(comm, active, variance):
    maps = GaussianMaps(active(comm), (5, 10), 0.4, variance)
    x = maps.initial_point(0)
    check_gradient(maps, x)
    check_hessian_product(maps, x)


@pytest.mark.ranks(1, 3)
def test_a_random_projection_becomes_a_map_of_lower_rank(comm, points, true_delta, secants_of):
    objective = NearIsometry(secants_of(points, comm), 0.4, 6)
    result = thalweg.minimize(objective, solver="hessian-descent")
    assert result.status is Status.CONVERGED
    assert true_delta(points, result.solution) <= 0.4
    assert result.evaluations < 80  # variances fall as soon as little is gained at one
    np.testing.assert_array_equal(result.solution, comm.bcast(result.solution))
    random = thalweg.minimize(objective, solver="random-projection")
    assert random.status is Status.TARGET_NOT_REACHED


def test_the_solver_at_each_variance_is_found_by_its_name(points, secants_of):
    objective = NearIsometry(secants_of(points, MPI.COMM_SELF), 0.4, 6)
    with pytest.raises(InputError, match="lbgfs"):
        thalweg.minimize(objective, solver="hessian-descent", descent="lbgfs")
    result = thalweg.minimize(objective, solver="hessian-descent", descent="lbfgs")
    assert result.metrics["delta"] < 0.9
