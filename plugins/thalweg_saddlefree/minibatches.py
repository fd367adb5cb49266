"""Mini-batches: which data rows each step of a stochastic run sees, and how its state counts them.

The schedule is a function of its options and of two counters, the epoch and the batch within it.
The order of an epoch is a keyed permutation that every rank evaluates for its own rows alone.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from thalweg.errors import InputError
from thalweg.interfaces import TRANSIENT, Capability, SolverState
from thalweg.parallel import Array, Layout

#: Rounds of the Feistel network that permutes the rows.
ROUNDS = 6


@dataclass(frozen=True)
class RowSet:
    """Some of the data rows."""

    local: np.ndarray  # indices of this rank's rows among them, from its first row on; int64
    total: int  # number of these rows over all ranks


class Minibatches(Capability):
    """A mean over data rows that can be restricted to some of them.

    Values, gradients and curvature are means over the rows in use, so that those
    of a batch estimate those of all rows.
    """

    phrase = "mini-batch of data rows"

    #: Work so far, an integer in any unit, so that the sums of a resumed run are exact.
    operations: int = 0

    operations_per_gradient: int = 1  # work of a gradient over all rows, in the same unit

    #: Arguments of the last :meth:`use_rows`.
    rows_in_use: tuple[RowSet | None, RowSet | None] = (None, None)

    @property
    def work(self) -> float:
        """Work so far in gradient equivalents."""
        return self.operations / self.operations_per_gradient

    data_layout: Layout  # distribution of the training rows over the ranks

    predictions: int = 1  # that a row holds: as many as a sequence has positions

    @abstractmethod
    def use_rows(self, values: RowSet | None, curvature: RowSet | None = None) -> None:
        """Restrict later calls to some of the rows.

        Subclasses call ``super().use_rows(values, curvature)`` too, which records the rows.

        Parameters
        ----------
        values
            Rows that values and gradients see; None stands for all.
        curvature
            Rows that curvature products see; None stands for those of ``values``. Where they
            are the first of ``values``, a product at the point of the last gradient
            reuses its forward pass.
        """
        self.rows_in_use = (values, curvature)

    def held_out_value(self, x: Array) -> float:
        """Objective over rows that are not trained on; NaN where there are none.  Collective."""
        return float("nan")


@dataclass(frozen=True)
class BatchSchedule:
    """Batches of data rows: each epoch is a random partition of all rows.

    Parameters
    ----------
    rows
        Data rows on all ranks.
    size
        Rows of a batch. An epoch is cut into ``round(rows / size)`` batches of equal size (to one
        row), at least one; a solver whose batches grow takes another schedule for another epoch.
    seed
        Seed of the permutations.

    Raises
    ------
    InputError
        No rows, or a batch of none.
    """

    rows: int
    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError("a batch schedule needs at least one data row")
        if self.size < 1:
            raise InputError(f"a batch must have at least one row, not {self.size}")

    @property
    def batches(self) -> int:
        """Batches that an epoch is cut into."""
        return max(1, round(self.rows / self.size))

    def bounds(self, batch: int) -> tuple[int, int]:
        """Positions of the first row of a batch in the order of its epoch, and of the next's."""
        count = self.batches
        if not 0 <= batch < count:
            raise IndexError(f"an epoch has {count} batches, no batch {batch}")
        return batch * self.rows // count, (batch + 1) * self.rows // count

    def positions(self, epoch: int, rows: np.ndarray) -> np.ndarray:
        """Position of each global row in the order of an epoch, int64: a permutation.

        A balanced Feistel network on the least even number of bits that holds all rows;
        positions beyond the last row are permuted again until they fall inside.
        """
        half = max(1, ((self.rows - 1).bit_length() + 1) // 2)
        mask = np.uint64((1 << half) - 1)
        shift = np.uint64(half)
        root = np.random.SeedSequence(self.seed, spawn_key=(epoch,))
        keys = root.generate_state(ROUNDS, np.uint64)
        positions = rows.astype(np.uint64)
        outside = np.arange(len(positions))
        while len(outside):
            left, right = positions[outside] >> shift, positions[outside] & mask
            for key in keys:
                left, right = right, left ^ (scrambled(right ^ key) & mask)
            positions[outside] = (left << shift) | right
            outside = outside[positions[outside] >= self.rows]
        return positions.astype(np.int64)


def scrambled(values: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit integers whose output bits look independent (splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def random_signs(rows: np.ndarray, columns: int, seed: int, dtype: np.dtype) -> np.ndarray:
    """Independent -1 and 1 for each global row and column, whichever rank asks for them."""
    words = -(-columns // 64)
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    counters = rows.astype(np.uint64)[:, None] * np.uint64(words)
    counters = counters + np.arange(words, dtype=np.uint64)
    # Two bijections with the key in between: one alone would only shift neighbors' bits.
    bits = scrambled(scrambled(counters + key) ^ key).view(np.uint8)
    return np.unpackbits(bits, axis=1, count=columns).astype(dtype) * 2 - 1


class EpochOrder:
    """This rank's rows of a layout in the order of one epoch, counted from 0."""

    def __init__(self, schedule: BatchSchedule, layout: Layout, epoch: int) -> None:
        self.schedule, self.epoch = schedule, epoch
        positions = schedule.positions(epoch, np.arange(layout.start, layout.stop))
        self._rows = np.argsort(positions, kind="stable")
        self._positions = positions[self._rows]

    def batch(self, index: int, share: float = 1.0) -> RowSet:
        """Rows of a batch in the order of the epoch, or only its first ``share``."""
        first, last = self.schedule.bounds(index)
        last = min(last, first + max(1, round(share * (last - first))))
        low, high = np.searchsorted(self._positions, (first, last))
        return RowSet(self._rows[low:high], last - first)


#: Trace columns of a solver whose steps see batches.
STOCHASTIC_COLUMNS = ("epoch", "epoch_value", "held_out_value", "work")


@dataclass(frozen=True, kw_only=True)
class StochasticState(SolverState):
    """State of a solver whose steps see batches; ``value`` and ``gradient`` are a batch's.

    ``epoch_value`` is the mean of the values of the last epoch's batches, each before its step.
    """

    batch: int = 0  # batches of the present epoch already used
    held_out_value: float = float("nan")  # at the end of the last epoch; NaN if none are held out
    operations: int = 0  # work so far, in the objective's unit
    total: float = 0.0  # sum of the values of the present epoch's batches, times their rows
    whole: bool = False  # whether all rows are in use
    #: This rank's order of the present epoch; and epoch, batch and rows for which ``value`` and
    #: ``gradient`` were evaluated.
    order: EpochOrder | None = field(default=None, metadata=TRANSIENT)
    in_use: tuple[int, int, RowSet] | None = field(default=None, metadata=TRANSIENT)

    @property
    def work(self) -> float:
        """Gradient equivalents so far; evaluations, where the objective counts none."""
        if isinstance(self.objective, Minibatches):
            return self.operations / self.objective.operations_per_gradient
        return float(self.evaluations)

    def with_rows(self, schedule: BatchSchedule, share: float = 1.0) -> Self:
        """The state once the objective uses the next batch, and its first ``share``."""
        assert isinstance(self.objective, Minibatches)
        order = self.order
        if order is None or order.epoch != self.epoch or order.schedule != schedule:
            order = EpochOrder(schedule, self.objective.data_layout, self.epoch)
        rows = order.batch(self.batch)
        self.objective.use_rows(rows, order.batch(self.batch, share))
        return replace(self, order=order, in_use=(self.epoch, self.batch, rows))

    @property
    def rows_differ(self) -> bool:
        """Whether the objective uses other rows by now, as in a run that is resumed."""
        if not isinstance(self.objective, Minibatches):
            return False
        used, here = self.in_use, (self.epoch, self.batch)
        return used is None or used[:2] != here or used[2] is not self.objective.rows_in_use[0]

    def after_batch(self, schedule: BatchSchedule, value: float) -> Self:
        """The state with the batch just used counted, and the epoch, if it is over.  Collective."""
        first, last = schedule.bounds(self.batch)
        total = self.total + value * (last - first)
        if self.batch + 1 < schedule.batches:
            return replace(self, batch=self.batch + 1, total=total)
        held_out = self.held_out_value
        if isinstance(self.objective, Minibatches):
            held_out = self.objective.held_out_value(self.x)
        return replace(
            self, epoch=self.epoch + 1, batch=0, epoch_value=total / schedule.rows,
            held_out_value=held_out, total=0.0,
        )  # fmt: skip
