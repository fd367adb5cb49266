"""Repulsion by a grid errs as little as it is told to, at any rank count."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg.parallel import Layout
from thalweg_embedding import PairFunction
from thalweg_embedding.objectives import repulsive_sum
from thalweg_embedding.pairs import split
from thalweg_embedding.pairs import transforms as transforms_module
from thalweg_embedding.pairs.every import EveryPair
from thalweg_embedding.pairs.functions import GAUSSIAN, STUDENT
from thalweg_embedding.pairs.grid import GridPairs
from thalweg_embedding.pairs.transforms import Transforms

pytest.importorskip("finufft")

CAUCHY_SQUARED = PairFunction(
    lambda d: ((1 + d) ** -2.0, -2 * (1 + d) ** -3.0, 6 * (1 + d) ** -4.0), "(1 + d)^-2"
)


def errors(layout, function, tolerance, rows):
    exact, found = np.empty_like(rows), np.empty_like(rows)
    total = EveryPair(layout, function).total_and_slopes(rows, exact)
    grid = GridPairs(layout, function, tolerance)
    approximate = grid.total_and_slopes(rows, found)
    assert grid.total(rows) == pytest.approx(approximate, rel=1e-12)
    exact, found = layout.gather_rows(exact), layout.gather_rows(found)
    return abs(approximate / total - 1), np.abs(found - exact).max() / np.abs(exact).max()


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("function", [STUDENT, GAUSSIAN, CAUCHY_SQUARED], ids=str)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize(("dimensions", "spread"), [(1, 30.0), (2, 1e-3), (2, 1.0), (2, 10.0)])
def test_slopes_and_total_are_as_exact_as_asked_for(comm, function, tolerance, dimensions, spread):
    layout = Layout(comm, 800, dimensions)
    rows = layout.random_normal(0, spread)
    of_total, of_slopes = errors(layout, function, tolerance, rows)
    assert of_slopes < 10 * tolerance
    assert of_total < tolerance


@pytest.mark.ranks(1, 2)
def test_three_dimensions(comm):
    layout = Layout(comm, 500, 3)
    of_total, of_slopes = errors(layout, STUDENT, 1e-2, layout.random_normal(0, 1.0))
    assert max(of_total, of_slopes) < 1e-2


def test_points_far_apart_are_summed_exactly(comm):
    layout = Layout(comm, 50, 2)
    of_total, of_slopes = errors(layout, GAUSSIAN, 1e-3, layout.random_normal(0, 40.0))
    assert max(of_total, of_slopes) < 1e-12


def test_a_rank_without_points_takes_part(comm):
    layout = Layout(comm, 1, 2)
    slopes = np.empty((layout.local_rows, 2))
    grid = GridPairs(layout, STUDENT)
    assert grid.total_and_slopes(np.zeros((layout.local_rows, 2)), slopes) == 0.0
    assert not slopes.any()


def test_more_than_three_dimensions_and_unequal_weights_are_refused(comm):
    with pytest.raises(InputError, match="1 to 3 dimensions"):
        GridPairs(Layout(comm, 10, 4), STUDENT)
    with pytest.raises(InputError, match="equal repulsive weights"):
        repulsive_sum(Layout(comm, 10, 2), STUDENT, np.ones((10, 10)), "grid")


def test_the_choice_goes_by_points_and_dimensions(comm):
    assert isinstance(repulsive_sum(Layout(comm, 100, 2), STUDENT), EveryPair)
    assert isinstance(repulsive_sum(Layout(comm, 20_000, 2), STUDENT), GridPairs)
    assert isinstance(repulsive_sum(Layout(comm, 20_000, 3), STUDENT), EveryPair)


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("cut", [4.0, 0.25, 2.0**-4, 2.0**-10])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3])
@pytest.mark.parametrize(("dimensions", "spread"), [(1, 30.0), (2, 100.0), (2, 2000.0)])
def test_a_split_errs_no_more_wherever_it_cuts(
    comm, monkeypatch, cut, tolerance, dimensions, spread
):
    monkeypatch.setattr(split, "CUTS", (cut,))
    layout = Layout(comm, 700, dimensions)
    rows = layout.random_normal(0, spread)
    of_total, of_slopes = errors(layout, STUDENT, tolerance, rows)
    assert of_slopes < 10 * tolerance
    assert of_total < tolerance


@pytest.mark.ranks(1, 2)
def test_shares_of_several_threads_are_summed_in_order(comm, monkeypatch):
    layout = Layout(comm, 3000, 2)
    angles = np.clip(layout.random_normal(0, 1.0), -3.0, 3.0)
    strengths = np.ones((1, len(angles)))

    def both_ways():
        transforms = Transforms(comm, 2, 64, 1e-4)
        transforms.place(angles)
        modes = transforms.to_modes(strengths)
        return modes, transforms.at_points(modes)

    whole = both_ways()
    monkeypatch.setattr(transforms_module, "POINTS_PER_THREAD", 100)
    monkeypatch.setattr(transforms_module.numba, "get_num_threads", lambda: 3)
    shared = both_ways()
    for found, expected in zip(shared, whole, strict=True):
        assert np.abs(found - expected).max() < 1e-3 * np.abs(expected).max()
    for _ in range(50):
        again = both_ways()
        assert all(np.array_equal(a, b) for a, b in zip(again, shared, strict=True))


def uniform_crowding(extent):
    return 70_000 / extent**2


def chosen(extent):
    return split.cheapest_split(70_000, 2, extent, uniform_crowding(extent), 1e-2)


def test_a_wide_map_takes_a_cut_and_a_small_one_none():
    assert chosen(12.0).radius == 0.0
    assert chosen(2000.0).radius > 1.0


@pytest.mark.parametrize("extent", [1e3, 1e4, 1e5])
def test_a_map_of_any_width_has_a_box_that_is_not_too_large(extent):
    cut = split.cheapest_split(1_000_000, 2, extent, 1_000_000 / extent**2, 1e-3)
    assert split.modes_of(cut.band, extent, 2) <= split.MOST_MODES
    assert cut.cost(1_000_000, 2, extent, 1_000_000 / extent**2) < 0.01 * 4.0 * 1e12


def test_cost_hardly_grows_with_the_extent():
    costs = [
        chosen(extent).cost(70_000, 2, extent, uniform_crowding(extent))
        for extent in (200.0, 2000.0)
    ]
    assert costs[1] < 2.0 * costs[0]


def test_crowding_is_the_density_that_points_feel():
    points = np.random.default_rng(0).uniform(0, 100, (200_000, 2))
    assert split.crowding(points) == pytest.approx(20.0, rel=0.2)
    far = np.vstack([points, [[1000.0, 1000.0]]])
    assert split.crowding(far) == pytest.approx(20.0, rel=0.2)
