"""The objective is the squared hinge over all secants, with the gradient it claims."""

import numpy as np
import pytest

import thalweg
from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.testing import check_gradient
from thalweg_isometry.active import ActiveSecants, holders
from thalweg_isometry.hinge import hinge
from thalweg_isometry.near_isometry import NearIsometry, build


def hinge_over_all_pairs(points, psi, delta, counts=None):
    i, j = np.triu_indices(len(points), 1)
    difference = points[i] - points[j]
    change = ((difference @ psi.T) ** 2).sum(axis=1) / (difference**2).sum(axis=1) - 1.0
    miss = np.maximum(np.abs(change) - delta, 0.0)
    return 0.5 * (miss[counts(i, j)] ** 2).sum() if counts else 0.5 * (miss**2).sum()


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("kind", ["all", "within-class", "neighbors", "sums"])
def test_value_and_gradient(comm, digits, kind):
    points = digits[:40, 10:22] + 0.01 * np.random.default_rng(0).standard_normal((40, 12))
    labels = np.arange(40) % 3
    dataset = Dataset.from_array(points, labels, comm)
    objective = build(dataset, comm, delta=0.2, rank=3, secants=kind, n_neighbors=4)
    psi = np.random.default_rng(1).standard_normal((3, 12))
    if kind != "neighbors":
        every = np.concatenate([points, -points]) if kind == "sums" else points
        counts = (lambda i, j: labels[i] == labels[j]) if kind == "within-class" else None
        expected = hinge_over_all_pairs(every, psi, 0.2, counts)
        assert objective.value(psi) == pytest.approx(expected, rel=1e-10)
    check_gradient(objective, psi)


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
    lengths = (difference**2).sum(axis=1)
    active = ActiveSecants(objective.secants, pairs[held], lengths[held])
    value, gradient, largest = hinge(active, psi, 0.1)
    assert value == pytest.approx(0.5 * (miss**2).sum(), rel=1e-10)
    assert largest == pytest.approx(np.abs(weights * change).max())
    _, slope = objective.value_and_gradient(psi)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-12)


@pytest.mark.ranks(1, 2)
def test_a_generic_solver_can_minimize_it(comm, digits, true_delta):
    objective = build(Dataset.from_array(digits[:40], comm=comm), comm, delta=0.4, rank=8)
    result = thalweg.minimize(objective, solver="lbfgs", iterations=300, decrease=0.0)
    assert result.metrics["delta"] == pytest.approx(true_delta(digits[:40], result.x), rel=1e-7)
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
    with pytest.raises(InputError, match="give one of them"):
        NearIsometry(build(dataset, comm, delta=0.3).secants, None, None)
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
