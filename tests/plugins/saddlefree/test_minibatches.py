"""Schedules of mini-batches: partitions that no rank count changes."""

import itertools

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg.parallel import Layout
from thalweg_saddlefree.minibatches import BatchSchedule, EpochOrder, random_signs


@pytest.mark.parametrize("rows", [1, 2, 3, 64, 1000])
def test_an_epoch_is_a_permutation_and_its_batches_a_partition(rows):
    schedule = BatchSchedule(rows, 7, seed=4)
    for epoch in range(4):
        positions = schedule.positions(epoch, np.arange(rows))
        assert sorted(positions) == list(range(rows))
        bounds = [schedule.bounds(k) for k in range(schedule.batches)]
        assert bounds[0][0] == 0
        assert bounds[-1][1] == rows
        assert all(a[1] == b[0] for a, b in itertools.pairwise(bounds))
        sizes = [last - first for first, last in bounds]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.ranks(1, 2, 3)
def test_the_rows_of_a_batch_are_the_same_on_any_number_of_ranks(comm):
    schedule = BatchSchedule(50, 12, seed=2)
    layout = Layout(comm, 50)
    order = EpochOrder(schedule, layout, 3)
    positions = schedule.positions(3, np.arange(50))
    for batch in range(schedule.batches):
        first, last = schedule.bounds(batch)
        for share in (1.0, 0.25):
            count = max(1, round(share * (last - first)))
            rows = order.batch(batch, share)
            gathered = np.concatenate(comm.allgather(layout.start + rows.local))
            wanted = np.flatnonzero((positions >= first) & (positions < first + count))
            assert sorted(gathered) == list(wanted)
            assert rows.total == count
    part, whole = order.batch(1, 0.5).local, order.batch(1).local
    np.testing.assert_array_equal(part, whole[: len(part)])


def test_random_signs_belong_to_a_row_and_are_uncorrelated():
    rows = np.arange(3000)
    signs = random_signs(rows, 70, 5, np.dtype(np.float32))
    assert set(np.unique(signs)) == {-1.0, 1.0}
    np.testing.assert_array_equal(random_signs(rows[[7, 3]], 70, 5, signs.dtype), signs[[7, 3]])
    # Standard deviation of a correlation over 3,000 rows is 0.018.
    assert np.abs(np.corrcoef(signs.T) - np.eye(70)).max() < 0.1
    other = random_signs(rows, 70, 6, signs.dtype)
    assert abs(float((signs * other).mean())) < 0.01


def test_a_schedule_without_rows_is_refused():
    with pytest.raises(InputError, match="batch must have at least one row, not 0"):
        BatchSchedule(10, 0)
    with pytest.raises(InputError, match="needs at least one data row"):
        BatchSchedule(0, 5)
