"""The worst pairs kept do not depend on the order in which they come."""

import numpy as np
import pytest

from thalweg.engines.secants.scan import ScanOptions
from thalweg.engines.secants.secant_bounds import Accuracy
from thalweg.engines.secants.worst_secants import WorstSecants
from thalweg.parallel import Layout


def pairs(count):
    random = np.random.default_rng(0)
    i, j = np.triu_indices(60, 1)
    order = random.permutation(len(i))[:count]
    # Few different values, so that ties are decided by the numbers.
    mapped = 1.0 + random.integers(-5, 6, count) / 10.0
    return i[order], j[order], np.ones(count), mapped


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
