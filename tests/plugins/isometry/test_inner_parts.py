"""The squared hinge over all secants, and the pieces of the ADMM methods, are their formulas."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import thalweg
import thalweg_isometry.normal_equations as equations_module
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.testing import check_gradient
from thalweg_isometry import fromax
from thalweg_isometry.active import ActiveSecants, hinge, holders
from thalweg_isometry.baselines import secant_directions
from thalweg_isometry.hessian_descent import density
from thalweg_isometry.hinge import lowering_row
from thalweg_isometry.near_isometry import NearIsometry, build
from thalweg_isometry.nile_pro import _least, onto_l1_ball
from thalweg_isometry.normal_equations import KINDS, BoundedForms, SecantColumns, normal_equations
from thalweg_isometry.secant_avoidance import avoiding
from thalweg_isometry.small_lbfgs import descend


@pytest.fixture
def some_secants(digits, secants_of):
    """A set, pairs of it, squared lengths, unit secants, which this rank holds, as columns too."""

    def build(comm):
        points = digits[:30, 8:20] + 0.02 * np.random.default_rng(3).standard_normal((30, 12))
        secants = secants_of(points, comm)
        pairs = np.sort(np.random.default_rng(4).choice(30, (60, 2)), axis=1)
        pairs = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
        difference = points[pairs[:, 0]] - points[pairs[:, 1]]
        lengths = (difference**2).sum(axis=1)
        held = holders(secants.layout, pairs) == comm.rank
        rows = SecantColumns.of(secants, pairs[held], lengths[held])
        return secants, pairs, lengths, difference / np.sqrt(lengths)[:, None], held, rows

    return build


@pytest.mark.ranks(1, 2, 3)
def test_points_and_rows_give_the_same_operator(comm, some_secants):
    secants, pairs, lengths, v, held, rows = some_secants(comm)
    active = ActiveSecants(secants, pairs[held], lengths[held])
    psi = np.random.default_rng(5).standard_normal((3, 12))
    exact = ((v @ psi.T) ** 2).sum(axis=1)
    images = active.images(psi)
    np.testing.assert_allclose(active.ratios(images), exact[held], rtol=1e-11)
    np.testing.assert_allclose(rows.forward(psi.T @ psi), exact[held], rtol=1e-11)
    assert active.count == rows.count == len(pairs)
    assert active.touched == len(np.unique(pairs))
    for few in (0, 50):  # weights that are not zero: all, and so few that only these are visited
        weights = np.random.default_rng(6).standard_normal(len(pairs))
        weights[:few] = 0.0
        adjoint = (v * weights[:, None]).T @ v
        weights = weights[held]
        np.testing.assert_allclose(rows.adjoint(weights), adjoint, atol=1e-12)
        np.testing.assert_allclose(active.adjoint_times(weights, images), psi @ adjoint, atol=1e-11)
    ratios, found = active.ratios_and_adjoint(lambda ratios: ratios - 1.0, images)
    np.testing.assert_allclose(ratios, exact[held], rtol=1e-11)
    np.testing.assert_allclose(found, psi @ ((v * (exact - 1.0)[:, None]).T @ v), atol=1e-11)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("kind", [*KINDS, "auto", "cg by products"])
def test_inner_solvers_solve_the_normal_equations(comm, some_secants, kind, monkeypatch):
    if kind == "cg by products":  # with matrices, as where the secants are many
        kind = "cg"
        monkeypatch.setattr(equations_module, "SQUARED", 0)
    _, pairs, _, v, held, rows = some_secants(comm)
    random = np.random.default_rng(7)
    target, center = random.standard_normal(len(pairs)), random.standard_normal((12, 12))
    center += center.T
    solve, excess = normal_equations(kind, rows, 0.7), np.zeros(held.sum())
    for _ in range(4):  # conjugate gradients go on from the last solution
        solution = solve(center, target[held], excess)
        excess = rows.forward(solution) - target[held]
    forms = np.einsum("ij,ij->i", v @ solution, v)
    slope = solution - center + 0.7 * (v * (forms - target)[:, None]).T @ v
    np.testing.assert_allclose(slope, 0.0, atol=1e-3 if kind == "cg" else 1e-10)


@pytest.mark.ranks(1, 2)
def test_steps_together_end_where_steps_as_published_lead(comm, some_secants):
    _, pairs, _, _, held, rows = some_secants(comm)
    forms = BoundedForms(rows, "auto")
    start = np.diag(np.linspace(0.2, 1.8, 12))
    shift = 0.1 * np.random.default_rng(2).standard_normal(len(pairs))[held]
    together = apart = start
    for _ in range(4):
        together, excess = forms.nearest(start, shift, 0.7, 0.2, together)
    for _ in range(400):
        apart, apart_excess = forms.nearest(start, shift, 0.7, 0.2, apart, "published")
    np.testing.assert_allclose(apart, together, atol=1e-9)
    np.testing.assert_allclose(apart_excess, excess, atol=1e-9)


def test_fromax_as_published_takes_the_steps_of_algorithm_1(digits, secants_of, monkeypatch):
    monkeypatch.setattr(fromax, "RAISE_AFTER", 1)  # which counts for other steps alone
    points, delta, beta1, beta2 = digits[:12, 8:20], 0.2, 0.3, 0.2
    options = {"beta1": beta1, "beta2": beta2, "sweep": 3}
    problem = NearIsometry(secants_of(points, MPI.COMM_SELF), delta, 2)
    solver = fromax.FroMaxSearch(steps="published", **options)
    state = solver.init(problem, problem.initial_point(0))
    i, j = state.cuts.pairs.T
    v = (points[i] - points[j]) / np.sqrt(state.cuts.lengths)[:, None]
    squares = np.einsum("si,sj->sij", v, v).reshape(len(v), -1)
    operator = np.eye(144) + beta1 * squares.T @ squares
    y, x = state.psi, state.psi.T
    p, multiplier, gamma = x @ y, np.zeros(len(v)), np.zeros_like(y)
    for _ in range(3):
        z = squares @ p.ravel() + multiplier / beta1 - 1.0
        q = 1.0 + np.sign(z) * np.minimum(abs(z), delta)
        p = np.linalg.solve(operator, (x @ y).ravel() + squares.T @ (beta1 * q - multiplier))
        p = p.reshape(12, 12)
        x = (gamma.T + beta2 * y.T + p @ y.T) @ np.linalg.inv(y @ y.T + beta2 * np.eye(2))
        y = np.linalg.inv(x.T @ x + beta2 * np.eye(2)) @ (x.T @ p - gamma + beta2 * x.T)
        multiplier = multiplier + beta1 * (squares @ p.ravel() - q)
        gamma = gamma + beta2 * (y - x.T)
    state = solver.step(state)
    for found, wanted in ((state.psi, y), (state.x_factor, x), (state.gamma, gamma)):
        np.testing.assert_allclose(found, wanted, atol=1e-8)
    np.testing.assert_allclose(state.p, p, atol=1e-8)
    np.testing.assert_allclose(state.dual, multiplier, atol=1e-8)


def test_the_l1_ball_projection_is_the_nearest_point():
    random = np.random.default_rng(8)
    for _ in range(20):
        vector = random.standard_normal(6) * random.uniform(0.1, 3)
        found = onto_l1_ball(vector)
        assert np.abs(found).sum() <= 1 + 1e-12
        others = random.standard_normal((3000, 6))
        others /= np.maximum(1.0, np.abs(others).sum(axis=1))[:, None]
        assert ((found - vector) ** 2).sum() <= ((others - vector) ** 2).sum(axis=1).min() + 1e-12


def test_the_step_of_nile_pro_is_the_minimizer_on_its_line():
    random = np.random.default_rng(12)
    for _ in range(10):
        miss, linear = random.standard_normal((2, 7))
        square = random.random(7)
        line = np.append(np.linspace(-6, 6, 4001), _least(np.dot, miss, linear, square))[:, None]
        sizes = np.linalg.norm(miss + 2 * line * linear + line**2 * square, axis=1)
        assert sizes[-1] <= sizes.min() + 1e-12


def test_descent_stops_where_it_is_told():
    def valley(x):
        value, slopes = scipy.optimize.rosen(x[0]), scipy.optimize.rosen_der(x[0])
        return float(value), slopes[None], float(np.abs(x - 1).max())

    start = np.array([[-1.2, 1.0]])
    near = descend(valley, start, goal=0.5, enough=0.0, patience=500, evaluations=500)
    assert near.met
    assert near.measure <= 0.5
    options = {"goal": 1e-8, "enough": 1e-16, "patience": 500}
    assert descend(valley, start, evaluations=500, **options).measure <= 1e-8
    assert not descend(valley, start, evaluations=5, **options).met


def test_one_more_row_lowers_the_hinge_as_far_as_any_multiple_of_it(digits, secants_of):
    secants = secants_of(digits[:30], MPI.COMM_SELF)
    pairs = np.argwhere(np.triu(np.ones((30, 30)), 1))
    lengths = ((digits[pairs[:, 0]] - digits[pairs[:, 1]]) ** 2).sum(axis=1)
    active = ActiveSecants(secants, pairs, lengths)
    psi = 1.2 * secants.directions[:3]
    row = lowering_row(active, psi, 0.2)
    longer = (np.concatenate([psi, factor * row]) for factor in (1.0, 0.9, 1.1, 0.0))
    values = [hinge(active, each, 0.2)[0] for each in longer]
    assert values[0] == min(values)
    assert values[0] < 0.8 * values[3]
    assert lowering_row(active, np.eye(64), 0.2) is None


def test_a_projection_turned_towards_a_secant_shortens_it_less():
    random = np.random.default_rng(2)
    rows = np.linalg.qr(random.standard_normal((9, 4)))[0].T
    secant = random.standard_normal(9)
    turned = avoiding(rows, secant)
    np.testing.assert_allclose(turned @ turned.T, np.eye(4), atol=1e-12)
    assert np.linalg.norm(turned @ secant) > np.linalg.norm(rows @ secant)
    # What is orthogonal to the secant and its projection is mapped as before.
    kept = rows - np.outer(rows @ secant, rows @ secant) @ rows / ((rows @ secant) ** 2).sum()
    lengths = np.linalg.norm(turned @ kept.T, axis=0)
    np.testing.assert_allclose(lengths, np.linalg.norm(kept, axis=1))
    outside = secant - (rows @ secant) @ rows
    assert np.linalg.norm(avoiding(rows, outside) @ outside) > 0.0


def assert_directions(found, rows):
    expected = np.linalg.svd(rows)[2]
    np.testing.assert_allclose(np.abs((found[:8] * expected[:8]).sum(axis=1)), 1.0, atol=1e-9)


@pytest.mark.ranks(1, 3)
def test_the_directions_of_listed_secants_are_of_all_of_them(comm, digits, secants_of):
    pairs = np.stack([np.arange(40), np.arange(40) + 45], axis=1)
    weights = np.linspace(0.5, 1.0, 40)
    found = secant_directions(secants_of(digits, comm, pairs=pairs, weights=weights), most_points=2)
    v = digits[pairs[:, 0]] - digits[pairs[:, 1]]
    v /= np.linalg.norm(v, axis=1)[:, None]
    assert_directions(found, np.sqrt(weights)[:, None] * v)


@pytest.mark.ranks(1, 2)
def test_directions_over_points_are_of_the_secants_of_some_of_them(comm, digits, secants_of):
    points = np.concatenate([digits, digits[::3] + np.linspace(0.0, 1e-9, 64)])
    found = secant_directions(secants_of(points, comm), most_points=40)
    some = points[::3]
    i, j = np.triu_indices(len(some), 1)
    v = some[i] - some[j]
    assert_directions(found, v / np.linalg.norm(v, axis=1)[:, None])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_near_bounds_is_the_minimizer(comm, some_secants, kind):
    _, pairs, _, v, held, rows = some_secants(comm)
    forms = BoundedForms(rows, kind)
    random = np.random.default_rng(13)
    center = random.standard_normal((12, 12))
    center = 0.3 * np.eye(12) + 0.1 * (center + center.T)
    shift = 0.1 * random.standard_normal(len(pairs))
    found, excess = center, np.empty(0)
    for _ in range(4):  # an iteration goes on from the last one
        found, excess = forms.nearest(center, shift[held], 2.0, 0.2, found)

    def value(matrix):
        miss = np.einsum("ij,ij->i", v @ matrix, v) + shift - 1.0
        over = miss - np.clip(miss, -0.2, 0.2)
        return 0.5 * np.linalg.norm(matrix - center) ** 2 + (over**2).sum(), over

    least, over = value(found)
    np.testing.assert_allclose(excess, over[held], atol=1e-4)
    assert 0 < np.count_nonzero(over) < len(pairs)
    assert np.abs(found - center + 2.0 * (v * over[:, None]).T @ v).max() < 1e-3
    assert least < value(center)[0]
    same, _ = forms.nearest(np.eye(12), np.zeros(held.sum()), 2.0, 0.2, np.eye(12))
    np.testing.assert_allclose(same, np.eye(12), atol=1e-12)


def hinge_over_all_pairs(points, psi, delta, counts):
    """Value and gradient in extended precision."""
    i, j = np.triu_indices(len(points), 1)
    difference = (points.astype(np.longdouble)[i] - points[j])[counts(i, j)]
    lengths = np.sqrt((difference**2).sum(axis=1))
    v = difference[lengths > 0.0] / lengths[lengths > 0.0, None]
    change = ((v @ psi.T) ** 2).sum(axis=1) - 1.0
    miss = np.sign(change) * np.maximum(np.abs(change) - delta, 0.0)
    return 0.5 * (miss**2).sum(), 2.0 * (miss[:, None] * (v @ psi.T)).T @ v


def with_near_points(points, apart):
    """The first ten points again, at the end, so far from themselves; at 0 they coincide."""
    shifts = apart * np.random.default_rng(3).standard_normal((10, points.shape[1]))
    return np.concatenate([points, points[:10] + shifts])


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("apart", [0.1, 1e-3, 1e-5, 1e-9, 0.0])
@pytest.mark.parametrize("kind", ["all", "within-class", "neighbors", "sums"])
def test_value_and_gradient(comm, digits, kind, apart):
    points = digits[:30, 10:22] + 0.01 * np.random.default_rng(0).standard_normal((30, 12))
    points, labels = with_near_points(points, apart), np.arange(40) % 3
    dataset = Dataset.from_array(points, labels, comm)
    objective = build(dataset, comm, delta=0.2, rank=3, secants=kind, n_neighbors=4)
    psi = np.random.default_rng(1).standard_normal((3, 12))
    if kind != "neighbors":
        every = np.concatenate([points, -points]) if kind == "sums" else points
        same = (lambda i, j: labels[i] == labels[j]) if kind == "within-class" else np.not_equal
        value, gradient = hinge_over_all_pairs(every, psi, 0.2, same)
        assert objective.value(psi) == pytest.approx(float(value), rel=1e-9)
        found = objective.value_and_gradient(psi)[1]
        np.testing.assert_allclose(found, gradient.astype(float), rtol=1e-8, atol=1e-8)
    # Listed secants are differences of images, which keep half the digits at 1e-9.
    check_gradient(objective, psi, tolerance=1e-4 if kind == "neighbors" else 1e-6)


@pytest.mark.ranks(1, 2)
def test_weights_multiply_the_changes_of_their_pairs(comm, digits, secants_of):
    points = digits[:30, 10:22] + 0.01 * np.random.default_rng(0).standard_normal((30, 12))
    pairs = np.stack([np.arange(29), np.arange(1, 30)], axis=1)
    weights = np.random.default_rng(2).uniform(0.2, 1.0, 29)
    objective = NearIsometry(secants_of(points, comm, pairs=pairs, weights=weights), 0.1, 3)
    psi = np.random.default_rng(1).standard_normal((3, 12))
    difference = points[:-1] - points[1:]
    change = ((difference @ psi.T) ** 2).sum(axis=1) / (difference**2).sum(axis=1) - 1.0
    miss = np.maximum(np.abs(weights * change) - 0.1, 0.0)
    assert objective.value(psi) == pytest.approx(0.5 * (miss**2).sum(), rel=1e-10)
    check_gradient(objective, psi)
    held = holders(objective.secants.layout, pairs) == comm.rank
    active = ActiveSecants(objective.secants, pairs[held], (difference**2).sum(axis=1)[held])
    value, gradient, largest = hinge(active, psi, 0.1)
    assert value == pytest.approx(0.5 * (miss**2).sum(), rel=1e-10)
    assert largest == pytest.approx(np.abs(weights * change).max())
    _, slope = objective.value_and_gradient(psi)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-12)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("apart", [1e-2, 1e-9])
def test_a_generic_solver_can_minimize_it(comm, digits, true_delta, apart):
    points = with_near_points(digits[:40], apart)
    objective = build(Dataset.from_array(points, comm=comm), comm, delta=0.4, rank=14)
    result = thalweg.minimize(objective, solver="lbfgs", iterations=300, decrease=0.0)
    assert result.metrics["delta"] == pytest.approx(true_delta(points, result.x), rel=1e-7)
    assert result.metrics["delta"] <= 0.4 + np.sqrt(2.0 * result.objective) + 1e-7
    assert result.metrics["delta"] < 0.45


@pytest.mark.ranks(1, 2)
def test_bad_targets_and_points_are_refused(comm, digits):
    dataset = Dataset.from_array(digits, comm=comm)
    for delta in (0.0, 1.0, -0.1, 1.5):
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            build(dataset, comm, delta=delta)
    for rank in (0, 65):
        with pytest.raises(InputError, match="number of columns, 64"):
            build(dataset, comm, rank=rank)
    with pytest.raises(InputError, match="need labels"):
        build(dataset, comm, delta=0.3, secants="within-class")
    same = Dataset.from_array(np.ones((9, 4)), comm=comm)
    with pytest.raises(InputError, match="at least two distinct points"):
        build(same, comm, delta=0.3)
    hole = digits.copy()
    hole[70, 3] = np.nan
    with pytest.raises(InputError, match="nan in row 70"):
        build(Dataset.from_array(hole, comm=comm), comm, delta=0.3)


@pytest.mark.parametrize("unit", [1e100, 1e-100])
@pytest.mark.parametrize("kind", ["all", "within-class", "neighbors"])
def test_the_unit_of_length_does_not_matter(digits, unit, kind):
    found = []
    for points in (digits[:30], digits[:30] * unit):
        dataset = Dataset.from_array(points, np.arange(30) % 3)
        objective = build(dataset, dataset.comm, 0.4, None, kind, 5)
        result = thalweg.minimize(objective, solver="hinge-lbfgs")
        assert result.metrics["delta"] <= 0.4
        found.append((result.metrics["rank"], result.metrics["rank_lower_bound"]))
    assert found[0] == found[1]


@pytest.mark.parametrize("degrees", [3, 12, 502])
def test_densities_are_those_of_the_series_also_where_bessel_functions_vanish(degrees):
    centers = np.geomspace(1e-8, 1e6, 60)
    for x in (1e-3, 40.0, 500.0, 2e5):
        expected = scipy.stats.ncx2.pdf(x, degrees, centers)
        assert np.abs(density(x, degrees, centers) - expected).max() <= 1e-10 * expected.max()
    normal = (2.0 * np.pi * 12e12) ** -0.5  # of the variance 4 c
    assert density(3e12, degrees, np.array([3e12]))[0] == pytest.approx(normal, rel=1e-3)
