"""Repulsion by a grid errs as little as it is told to, at any rank count."""

import pickle

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from thalweg.errors import InputError
from thalweg.parallel import Layout
from thalweg_embedding import TSNE, PairFunction
from thalweg_embedding.defaults import PAIR_COST
from thalweg_embedding.pairs import boxes, fixed_field
from thalweg_embedding.pairs.all_pairs import AllPairs
from thalweg_embedding.pairs.cells import Cells
from thalweg_embedding.pairs.fixed_field import FixedField
from thalweg_embedding.pairs.functions import GAUSSIAN, STUDENT
from thalweg_embedding.pairs.grid_pairs import GridPairs
from thalweg_embedding.pairs.mesh import Mesh, Window
from thalweg_embedding.pairs.parametric import cross_entropy_functions, student_functions
from thalweg_embedding.pairs.spectrum import bandwidth
from thalweg_embedding.pairs.sum_methods import repulsive_sum

CAUCHY_SQUARED = PairFunction(
    lambda d: ((1 + d) ** -2.0, -2 * (1 + d) ** -3.0, 6 * (1 + d) ** -4.0), "(1 + d)^-2"
)


def errors(layout, function, tolerance, rows):
    total, exact = AllPairs(layout, function).total_and_slopes(rows)
    grid = GridPairs(layout, function, tolerance)
    approximate, found = grid.total_and_slopes(rows)
    assert grid.total(rows) == pytest.approx(approximate, rel=1e-12)
    exact, found = layout.gather_rows(exact), layout.gather_rows(found)
    return abs(approximate / total - 1), np.abs(found - exact).max() / np.abs(exact).max()


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("function", [STUDENT, GAUSSIAN, CAUCHY_SQUARED], ids=str)
def test_slopes_and_total_are_as_exact_as_asked_for(comm, function):
    for dimensions, spread in ((1, 30.0), (2, 1e-3), (2, 1.0), (2, 10.0)):
        layout = Layout(comm, 300, dimensions)
        rows = layout.random_normal(0, spread)
        for tolerance in (1e-2, 1e-6):
            of_total, of_slopes = errors(layout, function, tolerance, rows)
            assert of_slopes < 10 * tolerance
            assert of_total < tolerance


@pytest.mark.parametrize(
    "function",
    [student_functions(0.0)[1], cross_entropy_functions(1.57694, 0.895061, 1e-3)[1]],
    ids=["heavy tails", "umap"],
)
def test_heavy_tails_and_repulsions_that_are_singular_but_for_an_offset(comm, function):
    """The strongest of their forces are those of a few near pairs, on which no mesh may count."""
    for rows, spread in ((300, 0.05), (300, 3.0), (3000, 20.0)):
        layout = Layout(comm, rows, 2)
        of_total, of_slopes = errors(layout, function, 1e-2, layout.random_normal(0, spread))
        assert of_slopes < 1e-2
        assert of_total < 1e-3
    slow = GridPairs(layout, function, 1e-2)
    said = []
    slow.note = said.append
    slow.total(layout.random_normal(0, 20.0))
    assert said == []


def test_all_that_is_compiled_is_kept_for_later_runs(comm, monkeypatch):
    def refuse(*_):
        raise AssertionError("compiled anew in each process")

    monkeypatch.setattr(Dispatcher, "_compile_for_args", refuse)
    function = student_functions(0.0)[1]
    layout = Layout(comm, 300, 2)
    assert errors(layout, function, 1e-2, layout.random_normal(0, 30.0))[0] < 1e-3


def test_more_than_three_dimensions_and_unequal_weights_are_refused(comm):
    with pytest.raises(InputError, match="1 to 3 dimensions"):
        GridPairs(Layout(comm, 10, 4), STUDENT)
    with pytest.raises(InputError, match="equal repulsive weights"):
        repulsive_sum(Layout(comm, 10, 2), STUDENT, np.ones((10, 10)), "grid")


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("function", [STUDENT, GAUSSIAN], ids=str)
def test_a_split_errs_no_more_wherever_it_cuts(comm, monkeypatch, function):
    for dimensions, spread in ((1, 30.0), (2, 30.0)):
        layout = Layout(comm, 300, dimensions)
        rows = layout.random_normal(0, spread)
        for cut in (4.0, 2.0**-4, 2.0**-10):
            monkeypatch.setattr(boxes, "CUTS", (cut,))
            for tolerance in (1e-2, 1e-4):
                of_total, of_slopes = errors(layout, function, tolerance, rows)
                assert of_slopes < 10 * tolerance
                assert of_total < tolerance


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("function", [STUDENT, GAUSSIAN], ids=str)
def test_a_map_has_one_value_whatever_was_evaluated_before(comm, function):
    layout = Layout(comm, 400, 2)
    maps = [layout.random_normal(0, spread) for spread in (0.01, 1.0, 1.1, 30.0, 2000.0)]

    def evaluated(pairs, rows):
        total, slopes = pairs.total_and_slopes(rows)
        assert pairs.total(rows) == total
        return total, slopes

    alone = [evaluated(GridPairs(layout, function, 1e-2), rows) for rows in maps]
    pairs = GridPairs(layout, function, 1e-2)
    for k in (0, 4, 1, 3, 2, 1, 0, 2, 4, 3):
        total, slopes = evaluated(pairs, maps[k])
        assert total == alone[k][0]
        np.testing.assert_array_equal(slopes, alone[k][1])


@pytest.mark.parametrize("function", [STUDENT, GAUSSIAN, CAUCHY_SQUARED], ids=str)
def test_a_total_errs_by_what_is_stated(comm, function):
    layout = Layout(comm, 900, 2)
    generator = np.random.default_rng(0)
    clusters = generator.normal(0, 50, (20, 2)).repeat(45, axis=0) + layout.random_normal(1, 2.0)
    line = np.outer(np.linspace(-200, 200, 900), [1.0, 0.3])
    lattice = np.round(layout.random_normal(3, 1.0))
    collapsed = [0.0 * line, *(layout.random_normal(2, 10.0**-k) for k in (3, 2, 1))]
    wide = [layout.random_normal(0, 4.0**k) for k in range(5)]
    exact = AllPairs(layout, function)
    for rows in (clusters, line, lattice, 10.0 * lattice, *collapsed, *wide):
        total = exact.total(rows)
        for tolerance in (1e-2, 1e-3, 1e-4):
            pairs = GridPairs(layout, function, tolerance)
            assert abs(pairs.total(rows) / total - 1.0) < pairs.relative_error
        assert abs(pairs.refined_total(rows) / total - 1.0) < pairs.relative_error
    crowd = Layout(comm, 5000, 2)  # at one place
    pairs = GridPairs(crowd, function)
    total = pairs.total(np.zeros(crowd.shape)) / (5000 * 4999 * function(0.0)[0])
    assert abs(total - 1.0) < pairs.relative_error


def test_a_fall_back_to_all_pairs_is_told_once_with_its_time(comm):
    notes = set()
    pairs = GridPairs(Layout(comm, 50, 2), GAUSSIAN, 1e-3)
    pairs.note = notes.add
    for spread in (40.0, 50.0):
        pairs.total(pairs.layout.random_normal(0, spread))
    assert len(notes) == 1
    assert "summed over all pairs" in notes.pop()
    pairs.total(np.full((50, 2), np.nan))
    assert not notes


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(("tolerance", "error"), [(4e-2, 2e-2), (1.3e-3, 5e-4), (4e-8, 1e-7)])
def test_modes_of_a_mesh_are_those_of_the_points(comm, tolerance, error):
    layout = Layout(comm, 500, 2)
    rows = np.clip(layout.random_normal(0, 10.0), -24.0, 24.0)
    real = np.dtype(np.float64)
    mesh = Mesh(comm, 2, 50.0, 120.0, 100, Window.of(tolerance), real)
    modes = mesh.modes(mesh.reached(Cells.of(rows, np.zeros(2), 5.0, real)))
    origin = np.exp(-1j * np.pi * mesh.window.taps / mesh.size)
    whole = layout.gather_rows(rows) + 25.0
    for k in ((0, 0), (3, 4), (-20, 7), (30, 45)):
        found = modes[0][k] * np.prod(mesh.deconvolution[np.abs(k)])
        exact = np.exp(-1j * mesh.wave * (whole @ k)).sum() * origin ** sum(k)
        assert abs(found - exact) < error * np.sqrt(500)


def chosen(rows, extent, tolerance=1e-2):
    crowd = rows / extent**2
    split = boxes.cheapest_split(STUDENT, rows, 2, extent, crowd, tolerance, PAIR_COST, boxes.CUTS)
    return split, boxes.cost(split, rows, 2, extent, crowd, PAIR_COST)


def test_a_gaussian_has_its_bandwidth():
    # Modes beyond K make up a slope of (2/pi)^(1/2) exp(-K^2/2); the steepest is exp(-1/2).
    for tolerance in (1e-2, 1e-4):
        wanted = np.sqrt(1.0 + np.log(2.0 / np.pi) - 2.0 * np.log(tolerance))
        assert bandwidth(lambda d: np.exp(-0.5 * d), tolerance) == pytest.approx(wanted, abs=0.05)


def test_a_wide_map_takes_a_cut_and_a_small_one_none():
    assert chosen(70_000, 12.0)[0].radius == 0.0
    assert chosen(70_000, 2000.0)[0].radius > 1.0


@pytest.mark.parametrize(("function", "dimensions"), [(STUDENT, 2), (GAUSSIAN, 2), (STUDENT, 1)])
def test_a_mesh_gives_the_sums_within_and_beyond(function, dimensions, monkeypatch):
    monkeypatch.setattr(fixed_field, "FIXED_ROWS", 100)
    generator = np.random.default_rng(0)
    points = 10.0 * generator.standard_normal((400, dimensions))
    places = np.concatenate([points[:20], 12.0 * generator.standard_normal((60, dimensions))])
    places[-2], places[-1] = 0.8 * np.ptp(points), 1e4  # beyond the mesh, far from all
    of_mesh = FixedField(function, points)
    assert of_mesh._box is not None
    values, slopes = of_mesh.at(places)
    monkeypatch.setattr(fixed_field, "FIXED_ROWS", 1000)
    exact, exact_slopes = FixedField(function, points).at(places)
    assert np.abs(values - exact).max() <= 1e-4 * np.abs(exact).max()
    assert np.abs(slopes - exact_slopes).max() <= 1e-3 * np.abs(exact_slopes).max()
    # No place feels another, nor the batch that it is in.
    alone = [of_mesh.at(places[n : n + 1]) for n in (0, 30, 79)]
    np.testing.assert_array_equal([v[0] for v, _ in alone], values[[0, 30, 79]])
    np.testing.assert_array_equal([s[0] for _, s in alone], slopes[[0, 30, 79]])


def test_new_points_rest_where_all_sums_say(monkeypatch):
    generator = np.random.default_rng(0)
    points = generator.standard_normal((330, 4)) + 6.0 * (np.arange(330) % 3)[:, None]
    estimator = TSNE(perplexity=10, random_state=0, max_iter=60).fit(points[:300])
    exact = estimator.transform(points[300:])
    monkeypatch.setattr(fixed_field, "FIXED_ROWS", 100)
    other = pickle.loads(pickle.dumps(estimator))
    placed = other.transform(points[300:])
    np.testing.assert_array_equal(placed, pickle.loads(pickle.dumps(other)).transform(points[300:]))
    assert not np.array_equal(placed, exact)  # a mesh it was
    assert np.abs(placed - exact).max() <= 1e-4 * np.ptp(estimator.embedding_, axis=0).max()
