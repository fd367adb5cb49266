"""What messages between ranks cost: measured by ``thalweg doctor``, kept for ``thalweg plan``.

No run chooses its way by these times: it would have other bits where they were measured again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from mpi4py import MPI

from thalweg.files import atomic_write_text
from thalweg.parallel.kernels import cache_folder

#: Bytes of a large message, and how often each size is exchanged.
LARGE, REPEATS = 2**20, 20


@dataclass(frozen=True)
class MessageCosts:
    """Costs of messages, of the pair of ranks for which they cost most.

    Attributes
    ----------
    latency
        Seconds of a small message.
    bandwidth
        Bytes per second of large ones, while all ranks send at once.
    ranks
        Ranks that took part when they were measured; 0 for assumed ones.
    """

    latency: float = 5e-6
    bandwidth: float = 1e9
    ranks: int = 0

    @classmethod
    def measured(cls, comm: MPI.Comm) -> MessageCosts | None:
        """Costs between ranks half of all apart, at once; None on one rank.  Collective."""
        if comm.size == 1:
            return None
        to, source = (comm.rank + comm.size // 2) % comm.size, (comm.rank - comm.size // 2)
        took = []
        for size in (8, LARGE):
            sent, received = np.zeros(size, np.uint8), np.empty(size, np.uint8)
            seconds = []
            for _ in range(REPEATS):
                began = MPI.Wtime()
                comm.Sendrecv(sent, to, recvbuf=received, source=source % comm.size)
                seconds.append(MPI.Wtime() - began)
            took.append(comm.allreduce(float(np.median(seconds)), op=MPI.MAX))
        small, large = max(took[0], 1e-9), max(took[1] - took[0], 1e-9)
        return cls(small, LARGE / large, comm.size)

    @classmethod
    def kept(cls) -> MessageCosts:
        """Costs that were measured last on this machine, else assumed ones."""
        try:
            found = cls(**json.loads(_path().read_text()))
        except (OSError, ValueError, TypeError):
            return cls()
        numbers = (found.latency, found.bandwidth, found.ranks)
        right = all(isinstance(n, int | float) and 0.0 < n < float("inf") for n in numbers)
        return found if right else cls()

    def keep(self) -> None:
        """Keep these costs for later plans."""
        atomic_write_text(_path(), json.dumps(asdict(self)) + "\n")

    def __str__(self) -> str:
        return f"{1e6 * self.latency:.3g} µs and {1e-9 * self.bandwidth:.3g} GB/s"


def _path() -> Path:
    return cache_folder() / "message-costs.json"
