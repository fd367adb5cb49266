"""Layouts: the distribution of the rows of an array over the ranks, and its algebra."""

import copy
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from mpi4py import MPI
from scipy.linalg.blas import daxpy

from thalweg.errors import InputError
from thalweg.files import storing
from thalweg.parallel.failures import on_root, raise_on_all_ranks
from thalweg.parallel.kernels import kernel
from thalweg.parallel.reductions import even_starts, exact_sum, max_over_ranks, values_of_all_ranks
from thalweg.parallel.traffic import count_messages

#: Rows of an array that the ranks share.
Array = npt.NDArray[np.float64]

#: Largest count and displacement of a message in MPI 3.
MPI_COUNT = 2**31 - 1

#: Squares of norms below this are as good as lost; above its inverse they overflow.
_SAFE = 1e-290

#: Bytes of rows that a digest takes at a time.
DIGEST_BLOCK = 2**20

#: Numbers of a block of an inner product, and blocks that are worked on at a time.  A block stays
#: in a cache, and is too short for a BLAS to use threads: bits do not depend on them.
BLOCK, BLOCKS = 8192, 16


class Layout:
    """An array of ``rows x columns`` float64 in contiguous row blocks over a communicator.

    Parameters
    ----------
    comm
        The ranks that share the rows.  ``MPI.COMM_SELF`` makes a replicated array.
    rows, columns
        Global shape; either may be 0 on some or all ranks.
    local_rows
        Rows of this rank.  By default the rows are shared out evenly, the first
        ``rows % comm.size`` ranks holding one more; a rank may hold none.

    Attributes
    ----------
    starts : ndarray of int64, shape (comm.size + 1,)
        Rank ``r`` owns rows ``starts[r]`` to ``starts[r + 1]``.
    start, stop, local_rows : int
        First row of this rank, one past its last, and their number.

    Notes
    -----
    Creating a layout with ``local_rows`` is collective.
    """

    def __init__(
        self, comm: MPI.Comm, rows: int, columns: int = 1, local_rows: int | None = None
    ) -> None:
        self.comm = comm
        self.rows = int(rows)
        self.columns = int(columns)
        if local_rows is None:
            self.starts = even_starts(self.rows, comm.size)
        else:
            counts = np.empty(comm.size, dtype=np.int64)
            comm.Allgather(np.array([local_rows], dtype=np.int64), counts)
            if counts.sum() != self.rows:
                raise ValueError(f"the ranks hold {counts.sum()} rows together, not {self.rows}")
            self.starts = np.concatenate([[0], np.cumsum(counts)])
        self.start, self.stop = (int(edge) for edge in self.starts[comm.rank : comm.rank + 2])
        self.local_rows = self.stop - self.start

    def __repr__(self) -> str:
        return f"Layout(rows={self.rows}, columns={self.columns}, ranks={self.comm.size})"

    @property
    def replicated(self) -> bool:
        """Whether every rank holds the whole array."""
        return bool(MPI.Comm.Compare(self.comm, MPI.COMM_SELF) in (MPI.IDENT, MPI.CONGRUENT))

    def counts(self) -> np.ndarray:
        """Rows of each rank, shape ``(comm.size,)``."""
        return np.diff(self.starts)

    def with_columns(self, columns: int) -> Self:
        """The same rows with another number of columns.  Not collective."""
        other = copy.copy(self)
        other.columns = int(columns)
        return other

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of this rank's rows."""
        return self.local_rows, self.columns

    @property
    def size(self) -> int:
        """Numbers of all ranks together."""
        return self.rows * self.columns

    # -- algebra ---------------------------------------------------------------------------

    def dot(self, a: Array, b: Array) -> float:
        """Inner product of two arrays of this layout, the same bits on every rank.  Collective."""
        return self.dots(a, (b,))[0]

    def dots(self, a: Array, others: Sequence[Array]) -> list[float]:
        """Inner products of one array with several, in one message.  Collective.

        The products of blocks, and those of ranks, are added exactly and rounded once.
        """
        sums = block_sums(a.reshape(-1), [other.reshape(-1) for other in others])
        local = [each[0] if len(each) == 1 else exact_sum(each) for each in sums]
        if self.comm.size == 1 or not local:
            return local
        parts = values_of_all_ranks(self.comm, np.array(local))
        return [exact_sum(each) for each in parts.T.tolist()]

    def norm(self, a: Array) -> float:
        """Euclidean norm.  Collective."""
        square = self.dot(a, a)
        if not _SAFE < square < 1.0 / _SAFE and not math.isnan(square):
            largest = max_over_ranks(self.comm, float(np.abs(a).max(initial=0.0)))
            if 0.0 < largest < math.inf:  # the square overflows, or loses its digits
                a = a / largest
                return largest * math.sqrt(self.dot(a, a))
        return math.sqrt(square) if square >= 0.0 else math.nan

    def combine(
        self, a: Array, weights: Sequence[float] | np.ndarray, others: Sequence[Array]
    ) -> Array:
        """A new array ``a + sum of weights * others``, added in this order.  Not collective."""
        total = np.array(a, dtype=float, order="C")
        add_multiples(total, weights, others)
        return total

    # -- moving rows -----------------------------------------------------------------------

    def gather_rows(self, block: np.ndarray) -> np.ndarray:
        """All ranks' row blocks on every rank, shape ``(rows, ...)``.  Collective."""
        block = np.ascontiguousarray(block)
        if self.comm.size == 1:
            return block.copy()
        if self.rows > MPI_COUNT:
            raise InputError(
                f"{self.rows} rows cannot be gathered on one rank: MPI counts to {MPI_COUNT}; "
                "use a method that leaves the rows distributed"
            )
        whole = np.empty((self.rows, *block.shape[1:]), dtype=block.dtype)
        if whole.size:
            count_messages(block.nbytes * (self.comm.size - 1), self.comm.size - 1)
            with row_type(block) as row:
                parts = [whole, self.counts(), self.starts[:-1], row]
                self.comm.Allgatherv([block, self.local_rows, row], parts)
        return whole

    def gather_on_root(self, block: np.ndarray) -> np.ndarray:
        """All ranks' row blocks on rank 0, an array of no rows on the others.  Collective."""
        block = np.ascontiguousarray(block)
        if self.comm.size == 1:
            return block
        whole = np.empty((self.rows if self.comm.rank == 0 else 0, *block.shape[1:]), block.dtype)
        with row_type(block) as row:
            parts = [whole, self.counts(), self.starts[:-1], row]
            self.comm.Gatherv([block, self.local_rows, row], parts)
        return whole

    def scatter_from_root(
        self, whole: np.ndarray | None, row_shape: tuple[int, ...], dtype: Any
    ) -> np.ndarray:
        """This rank's rows of an array that rank 0 gives; the others give any.  Collective."""
        if self.comm.size == 1:
            return np.ascontiguousarray(whole, dtype)
        block = np.empty((self.local_rows, *row_shape), dtype)
        with row_type(block) as row:
            sent: Any = None
            if self.comm.rank == 0:
                sent = [np.ascontiguousarray(whole, dtype), self.counts(), self.starts[:-1], row]
            self.comm.Scatterv(sent, [block, self.local_rows, row])
        return block

    def gather_some(self, block: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The rows with these ascending global numbers, on every rank.  Collective."""
        mine = block[self.own(numbers)]
        return Layout(self.comm, len(numbers), local_rows=len(mine)).gather_rows(mine)

    def spread(self, count: int) -> np.ndarray:
        """Ascending global numbers of so many rows, evenly spread; of all if these are fewer."""
        return np.unique(np.linspace(0, self.rows - 1, min(count, self.rows)).astype(np.int64))

    def owners(self, numbers: np.ndarray) -> np.ndarray:
        """Rank that owns each of these global row numbers.  Not collective."""
        return np.asarray(np.searchsorted(self.starts, numbers, side="right") - 1)

    def own(self, numbers: np.ndarray) -> np.ndarray:
        """Those of these global row numbers that are this rank's, counted from its first row."""
        return numbers[(numbers >= self.start) & (numbers < self.stop)] - self.start

    def local(self, whole: np.ndarray) -> np.ndarray:
        """This rank's rows of a replicated array, as a view."""
        return whole[self.start : self.stop]

    def digest(self, block: np.ndarray) -> str:
        """Digest of all ranks' row blocks, the same however they are distributed.  Collective.

        Parameters
        ----------
        block
            This rank's rows, shape ``(local_rows, ...)``, of one type without Python objects.
        """
        width = row_bytes(block)
        weights = np.random.default_rng(1).integers(1, 2**63, width, dtype=np.uint64)
        # Wrapping sums modulo 2**64: exact, so the order of the ranks does not matter.
        local = 0
        # Each byte takes eight in the product, which the whole would have no room for.
        count = max(1, DIGEST_BLOCK // max(1, width))
        for first in range(0, len(block) if width else 0, count):
            part = np.ascontiguousarray(block[first : first + count])
            raw = part.view(np.uint8).reshape(len(part), width).astype(np.uint64)
            start = self.start + first
            numbers = np.arange(start, start + len(part), dtype=np.uint64)
            local += int(((raw @ weights) * (2 * numbers + 1)).sum(dtype=np.uint64))
        total = sum(self.comm.allgather(local % 2**64)) % 2**64
        shape = "x".join(map(str, (self.rows, *block.shape[1:])))
        return hashlib.sha256(f"{shape}:{block.dtype}:{total}".encode()).hexdigest()[:16]

    def random_normal(self, seed: int, scale: float = 1.0) -> np.ndarray:
        """This rank's block of a standard normal array that does not depend on the ranks.

        Rows are drawn in blocks of 4096, each with a stream of its own, so that a
        rank draws only what it owns.

        Returns
        -------
        ndarray of float64, shape (local_rows, columns)
        """
        return scale * self._drawn(seed, np.random.Generator.standard_normal)

    def random_uniform(self, seed: int) -> np.ndarray:
        """The same of numbers from 0 to 1, the latter excluded."""
        return self._drawn(seed, np.random.Generator.random)

    def _drawn(self, seed: int, draw: Callable[..., np.ndarray]) -> np.ndarray:
        size = 4096
        block = np.empty((self.local_rows, self.columns))
        for number in range(self.start // size, -(-self.stop // size)):
            stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
            first, last = number * size, min((number + 1) * size, self.rows)
            drawn = draw(stream, (last - first, self.columns))
            low, high = max(first, self.start), min(last, self.stop)
            block[low - self.start : high - self.start] = drawn[low - first : high - first]
        return block

    def write(self, path: Path, block: np.ndarray, comm: MPI.Comm) -> None:
        """Write an npy file of all rows, straight under its name: each rank its own.  Collective.

        The rows are of one dtype; of a replicated array rank 0 of ``comm`` writes all.  On all
        ranks a ``StorageError``, where one of them cannot write.
        """
        block = np.ascontiguousarray(block)

        def create() -> int:
            with storing(path), open(path, "wb") as stream:
                rows = len(block) if self.replicated else self.rows
                kind, shape = np.lib.format.dtype_to_descr(block.dtype), (rows, *block.shape[1:])
                head = {"descr": kind, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, head)
                offset = stream.tell()
                stream.truncate(offset + rows * row_bytes(block))
                return offset

        offset = on_root(comm, create)
        with raise_on_all_ranks(comm):
            if (comm.rank == 0 or not self.replicated) and block.size:
                with storing(path), open(path, "r+b") as stream:
                    stream.seek(offset + row_bytes(block) * (0 if self.replicated else self.start))
                    stream.write(block.data)
                    stream.flush()
                    os.fsync(stream.fileno())


def row_bytes(block: np.ndarray) -> int:
    """Bytes of a row of an array."""
    return math.prod(block.shape[1:]) * block.dtype.itemsize


@contextmanager
def row_type(block: np.ndarray) -> Iterator[MPI.Datatype]:
    """A row as one MPI item, so that counts stay below 2**31 whatever the width."""
    row = MPI.BYTE.Create_contiguous(max(1, row_bytes(block))).Commit()
    try:
        yield row
    finally:
        row.Free()


def begin_transfer(
    transfer: Callable[..., MPI.Request], array: np.ndarray, rank: int, tag: int
) -> MPI.Request:
    """Begin to send rows to a rank, or to receive them."""
    if row_bytes(array) == 0:
        return MPI.REQUEST_NULL
    with row_type(array) as row:
        return transfer([array, len(array), row], rank, tag)


# -- inner products and updates of long arrays, each read from memory once -----------------------


@np.errstate(over="ignore", invalid="ignore")  # a sum may be infinite; NumPy 2 warns of it
def block_sums(a: np.ndarray, others: Sequence[np.ndarray]) -> list[list[float]]:
    """For each of some flat arrays, its inner products with ``a``, one for each block."""
    if a.size < BLOCK:
        return [[float(a.dot(other))] for other in others]
    sums: list[list[float]] = [[] for _ in others]
    whole = a.size - a.size % BLOCK
    for first in range(0, whole, BLOCK * BLOCKS):
        here = slice(first, min(whole, first + BLOCK * BLOCKS))
        left = a[here].reshape(-1, 1, BLOCK)
        for sums_of_one, other in zip(sums, others, strict=True):
            sums_of_one += np.matmul(left, other[here].reshape(-1, BLOCK, 1)).ravel().tolist()
    if whole < a.size:
        for sums_of_one, other in zip(sums, others, strict=True):
            sums_of_one.append(float(a[whole:].dot(other[whole:])))
    return sums


def add_multiples(
    total: np.ndarray, weights: Sequence[float] | np.ndarray, others: Sequence[np.ndarray]
) -> None:
    """``total += sum of weights * others``, in place and in this order; C-contiguous arrays."""
    flat = total.reshape(-1)
    pairs = zip(weights, [other.reshape(-1) for other in others], strict=True)
    if flat.size <= BLOCK:
        for weight, part in pairs if flat.size else ():
            daxpy(part, flat, a=weight)
        return
    # As in BLAS, a weight of zero adds nothing, not even NaN times zero.
    terms = [(float(weight), part) for weight, part in pairs if weight != 0.0]
    while terms:
        count = 4 if len(terms) >= 4 else 1
        factors, parts = zip(*terms[:count], strict=True)
        (_add_four if count == 4 else _add_one)(flat, *factors, *parts)
        del terms[:count]


# A BLAS would share a long array among its threads, and round otherwise where their parts end.
@kernel(fastmath={"contract"})
def _add_one(total, a, first):  # type: ignore[no-untyped-def]
    for i in range(total.size):
        total[i] += a * first[i]


@kernel(fastmath={"contract"})
def _add_four(total, a, b, c, d, first, second, third, fourth):  # type: ignore[no-untyped-def]
    for i in range(total.size):
        total[i] = (((total[i] + a * first[i]) + b * second[i]) + c * third[i]) + d * fourth[i]
