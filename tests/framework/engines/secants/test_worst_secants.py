"""The worst pairs kept do not depend on the order in which they come."""

import numpy as np
import pytest

from thalweg.engines.secants.listed_pairs import ListedPairs
from thalweg.engines.secants.scan import ScanOptions
from thalweg.engines.secants.secant_bounds import Accuracy
from thalweg.engines.secants.worst_secants import WorstSecants
from thalweg.parallel import MPI, Layout


def pairs(count):
    random = np.random.default_rng(0)
    i, j = np.triu_indices(60, 1)
    order = random.permutation(len(i))[:count]
    # Few different values, so that ties are decided by the numbers.
    mapped = 1.0 + random.integers(-5, 6, count) / 10.0
    return i[order], j[order], np.ones(count), mapped


@pytest.mark.parametrize("max_pairs", [1, 20, 400])
def test_any_order_of_arrival_gives_the_same_pairs(max_pairs):
    found = []
    for seed in range(3):
        i, j, lengths, mapped = pairs(300)
        keeper = WorstSecants(ScanOptions(0.1, max_pairs, 0), Accuracy.of(np.eye(3)))
        for part in np.array_split(np.random.default_rng(seed).permutation(300), 7):
            keeper.listed(i[part], j[part], lengths[part], mapped[part])
        found.append(keeper.finish(Layout(MPI.COMM_SELF, 60), 1, complete=True, count=300))
    for scan in found[1:]:
        np.testing.assert_array_equal(scan.pairs, found[0].pairs)
        np.testing.assert_array_equal(scan.distortions, found[0].distortions)
        assert (scan.delta, scan.pair) == (found[0].delta, found[0].pair)
    assert len(found[0].pairs) <= max_pairs
    assert found[0].pair == tuple(found[0].pairs[0])


@pytest.mark.ranks(1, 2, 3)
def test_the_ranks_worst_pairs_are_merged(comm):
    i, j, lengths, mapped = pairs(300)
    mine = np.arange(300) % comm.size == comm.rank
    shared = WorstSecants(ScanOptions(0.1, 50, 0), Accuracy.of(np.eye(3)))
    shared.listed(i[mine], j[mine], lengths[mine], mapped[mine])
    alone = WorstSecants(ScanOptions(0.1, 50, 0), Accuracy.of(np.eye(3)))
    alone.listed(i, j, lengths, mapped)
    together = shared.finish(Layout(comm, 60), 1, complete=True, count=300)
    whole = alone.finish(Layout(MPI.COMM_SELF, 60), 1, complete=True, count=300)
    np.testing.assert_array_equal(together.pairs, whole.pairs)
    assert together.delta == whole.delta
    assert together.n_measured == 300


@pytest.mark.ranks(1, 2, 3)
def test_ranks_share_the_worst_pairs(comm):
    i, j, lengths, mapped = pairs(300)
    mine = np.arange(300) % comm.size == comm.rank
    scans = []
    for share in (True, False):
        keeper = WorstSecants(
            ScanOptions(0.1, 50, 0, share=share), Accuracy.of(np.eye(3)), ranks=comm.size
        )
        keeper.listed(i[mine], j[mine], lengths[mine], mapped[mine])
        scans.append(keeper.finish(Layout(comm, 60), 1, True, 300))
    shared, whole = scans
    together = np.concatenate(comm.allgather(np.column_stack([shared.pairs, shared.distortions])))
    expected = np.column_stack([whole.pairs, whole.distortions])
    np.testing.assert_array_equal(
        together[np.lexsort(together.T)], expected[np.lexsort(expected.T)]
    )
    assert shared.delta == whole.delta


@pytest.mark.ranks(1, 3)
def test_a_rank_keeps_no_more_than_twice_its_share_but_always_the_worst(comm, monkeypatch):
    monkeypatch.setattr("thalweg.engines.secants.worst_secants.SPARE", 4)
    i, j, lengths, mapped = pairs(300)
    keeper = WorstSecants(ScanOptions(0.0, 60, 0), Accuracy.of(np.eye(3)), ranks=comm.size)
    if comm.rank == 0:  # all crowd on one rank
        for part in np.array_split(np.arange(300), 5):
            keeper.listed(i[part], j[part], lengths[part], mapped[part])
    scan = keeper.finish(Layout(comm, 60), 1, True, 300)
    assert len(scan.pairs) == (60 if comm.size == 1 else 2 * 60 // comm.size + 4)
    order = np.lexsort((j, i, -np.abs(mapped - 1.0)))[: len(scan.pairs)]
    np.testing.assert_array_equal(scan.pairs, np.stack([i, j], axis=1)[order])


def test_listed_pairs_are_distinct_and_ordered():
    neighbors = np.array([[1, 2], [0, 2], [1, 0]])
    layout = Layout(MPI.COMM_SELF, 3, 1)
    listed = ListedPairs.between(layout, neighbors)
    assert listed.own.tolist() == [[0, 1], [0, 2], [1, 2]]
