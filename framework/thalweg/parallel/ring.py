"""The ring: every rank's block of rows passes through every rank, overlapped with the work.

N rows make N^2 pairs, which are never stored: at each step a rank pairs its own rows
with one received block, while the next block is already on its way.
"""

import itertools
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from mpi4py import MPI

from thalweg.parallel.failures import refuse_differing
from thalweg.parallel.layout import Layout, begin_transfer
from thalweg.parallel.reductions import values_of_all_ranks
from thalweg.parallel.traffic import count_messages

#: Tags that no other message of a program is likely to have.
_BLOCK_TAG, _CONTRIBUTION_TAG = 24001, 24002

#: Seconds that a loop which is left early waits for the transfers under way.
_TIMEOUT = 2.0

# Buffers of transfers that never completed, because some rank failed: MPI may still write
# into them, so they must not be freed.
_abandoned: list[object] = []


@dataclass(frozen=True)
class RingBlock:
    """One block of rows that passes through this rank."""

    #: Rank that owns the rows.
    owner: int
    #: Their global row numbers.
    start: int
    stop: int
    #: Their rows of each array given to :meth:`Ring.blocks`, read-only and
    #: C-contiguous; valid until the next block.
    arrays: tuple[np.ndarray, ...]
    #: Which of this rank's own rows to pair with them, as local row numbers.
    rows: slice
    #: Whether the rows are this rank's own.  In a round that meets each pair once, the
    #: pairs are then those with ``i < j``.
    own: bool
    #: Rank that meets this rank's own block now, and which of this rank's rows, as local row
    #: numbers, it pairs.
    holder: int
    held: slice
    #: Where to add what the block's rows are to receive, shape ``(stop - start, ...)``;
    #: None if none was asked for.
    contributions: np.ndarray | None = None
    _pending: list[MPI.Request] = field(default_factory=list, repr=False)

    def poll(self) -> None:
        """Let MPI move the transfers under way; long work calls it now and then.

        Many MPI libraries move large messages only while the program is inside a call.
        """
        if self._pending:
            MPI.Request.Testall(self._pending)


class Ring:
    """Streams all pairs of rows of row-distributed arrays.

    Parameters
    ----------
    layout
        Rows and their distribution; blocks may be uneven or empty.  Its number of
        columns has no meaning here.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def blocks(
        self,
        *arrays: np.ndarray,
        each_pair_once: bool = False,
        contributions: np.ndarray | None = None,
        pieces: int = 1,
    ) -> Iterator[RingBlock]:
        """One round of the ring.  Collective.

        Parameters
        ----------
        arrays
            This rank's rows, shapes ``(local_rows, ...)``, of any numeric types, which must not
            change before the round is over.
        each_pair_once
            Meet each unordered pair of rows once over all ranks, instead of twice.  The work is
            shared out evenly: a rank meets half of the others, and two ranks half-way round from
            each other (an even number of ranks) share the pairs of their blocks.
        contributions
            This rank's rows of an array, shape ``(local_rows, ...)``, to which every
            rank may add through :attr:`RingBlock.contributions`: for symmetric kernels, that
            work on row i and row j at once.  It is complete when the round is over,
            and added up in an order that depends on the number of ranks alone.
        pieces
            Parts that blocks are cut into, one of which goes around at a time: a rank then
            holds less of others' rows.  The same on all ranks; 1 with contributions.

        Yields
        ------
        RingBlock
            The rank's own block first, then those of the following ranks.  Empty
            blocks are included, so that all ranks count the same blocks.  In pieces, one
            piece of all, then another.

        Raises
        ------
        InputError
            The arrays' types or shapes beyond the rows differ between ranks.

        Notes
        -----
        All ranks must run through the round, or leave it at the same block.  Beside the
        arrays given, a rank holds two received blocks, or pieces of these, and two blocks of
        contributions.
        """
        arrays = tuple(_as_block(array) for array in arrays)
        moving = [*arrays, *([contributions] if contributions is not None else [])]
        for array in moving:
            if array.shape[:1] != (self.layout.local_rows,):
                rows = self.layout.local_rows
                raise ValueError(f"an array of shape {array.shape} is not one of {rows} rows")
        self._compare(moving)
        if contributions is not None and pieces > 1:
            raise ValueError("blocks that gather contributions go around whole")
        return self._round(arrays, each_pair_once, contributions, pieces)

    def _compare(self, arrays: list[np.ndarray]) -> None:
        mine = [(array.dtype.str, array.shape[1:]) for array in arrays]
        digests = values_of_all_ranks(self.layout.comm, zlib.crc32(repr(mine).encode()))
        if (digests != digests[0]).any():  # texts travel slowly
            refuse_differing(self.layout.comm, "the types or row shapes of arrays", mine)

    def _round(
        self,
        arrays: tuple[np.ndarray, ...],
        each_pair_once: bool,
        contributions: np.ndarray | None,
        pieces: int,
    ) -> Iterator[RingBlock]:
        comm, size, pending = self.layout.comm, self.layout.comm.size, list[MPI.Request]()
        # Where pieces begin and end in the block of each rank.
        edges = np.stack([self.layout.counts() * k // pieces for k in range(pieces + 1)])
        counts = np.diff(edges, axis=0)
        steps = range(1, size // 2 + 1 if each_pair_once else size)
        # In turn of both halves: half-way round one of two ranks pairs those of the second alone.
        order = sorted(range(pieces), key=lambda piece: piece % -(-pieces // 2))
        # The rank's own block is there as a whole.
        turns = [(0, 0), *((piece, step) for piece in order for step in steps)]
        coming = _buffers(arrays, counts.max()) if len(turns) > 1 else []
        current, target, received = list[np.ndarray](), contributions, None
        try:
            for (piece, step), following in itertools.zip_longest(turns, turns[1:]):
                owner, holder = (comm.rank + step) % size, (comm.rank - step) % size
                if following is not None:
                    then, at = following
                    first, last = edges[then : then + 2, comm.rank]
                    leaving = current if at > 1 else [array[first:last] for array in arrays]
                    sent, taken = counts[then][(comm.rank + np.array([at - 1, at])) % size]
                    pending += _shifted(comm, leaving, sent, coming, taken)
                rows, theirs = _shares(self.layout, comm.rank, step, each_pair_once)
                held = _shares(self.layout, holder, step, each_pair_once)[1]
                blocks: Sequence[np.ndarray] = arrays
                before, end = 0, theirs.stop
                if step:
                    blocks, (before, end) = current, edges[piece : piece + 2, owner].tolist()
                start, stop = (min(max(row, before), end) for row in (theirs.start, theirs.stop))
                some = slice(start - before, stop - before)
                if step and contributions is not None:
                    shapes = ((r.stop - r.start, *contributions.shape[1:]) for r in (theirs, held))
                    target, received = (np.zeros(one, contributions.dtype) for one in shapes)
                    pending.append(begin_transfer(comm.Irecv, received, holder, _CONTRIBUTION_TAG))
                first = int(self.layout.starts[owner])
                yield RingBlock(
                    owner=owner, start=first + start, stop=first + stop, own=step == 0,
                    arrays=tuple(_as_block(block[some]) for block in blocks), rows=rows,
                    holder=holder, held=held, contributions=target, _pending=pending,
                )  # fmt: skip
                if target is not None and received is not None:
                    count_messages(target.nbytes)
                    pending.append(begin_transfer(comm.Isend, target, owner, _CONTRIBUTION_TAG))
                MPI.Request.Waitall(pending)
                pending.clear()
                if contributions is not None and received is not None:
                    contributions[held] += received
                if step == 0:
                    current = _buffers(arrays, counts.max()) if len(turns) > 2 else []
                current, coming = coming, current
        finally:
            if pending and not _complete(pending, _TIMEOUT):
                _abandoned.append((pending, current, coming, target, received))


def _buffers(arrays: tuple[np.ndarray, ...], rows: int) -> list[np.ndarray]:
    return [np.empty((rows, *array.shape[1:]), array.dtype) for array in arrays]


def _shifted(
    comm: MPI.Comm, leaving: list[np.ndarray], sent: int, free: list[np.ndarray], received: int
) -> Iterator[MPI.Request]:
    """Begin to pass so many rows of a block on to the left, and to take the next from the right."""
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    for block, room in zip(leaving, free, strict=True):
        count_messages(block[:sent].nbytes)
        yield begin_transfer(comm.Irecv, room[:received], right, _BLOCK_TAG)
        yield begin_transfer(comm.Isend, block[:sent], left, _BLOCK_TAG)


def _shares(layout: Layout, rank: int, step: int, each_pair_once: bool) -> tuple[slice, slice]:
    """Own rows, and rows of the received block, that a rank pairs at a step."""
    counts, size = layout.counts(), layout.comm.size
    owner = (rank + step) % size
    mine, theirs = int(counts[rank]), int(counts[owner])
    rows, received = slice(0, mine), slice(0, theirs)
    if each_pair_once and step and 2 * step == size:
        # Both ranks meet each other: the lower one's rows are shared out between them.
        if rank < owner:
            rows = slice(0, -(-mine // 2))
        else:
            received = slice(-(-theirs // 2), theirs)
    return rows, received


def _as_block(array: np.ndarray) -> np.ndarray:
    # Own and received arrays look alike, so that a compiled kernel sees one type.
    block = np.ascontiguousarray(array)
    if block.dtype.hasobject:
        raise ValueError("arrays of Python objects cannot be sent")
    block = block.view()
    block.flags.writeable = False
    return block


def _complete(requests: list[MPI.Request], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not MPI.Request.Testall(requests):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True
