"""Non-uniform FFTs between points and modes, over the ranks that hold the points."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numba
import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import MPI, sum_large

#: Fewest points for a further thread to be worth its own FFT of the whole box.
POINTS_PER_THREAD = 100_000

#: Modes from which an FFT is worth finufft's own threads.
LARGE_BOX = 2**20


class Transforms:
    """Plans of both directions for one number of modes.

    Parameters
    ----------
    comm
        Ranks among which the points lie.
    dimensions, count
        Of the box, and modes in each dimension, wave numbers -count/2 ... count/2 - 1.
    precision
        Relative error of a transform; single precision serves down to 1e-5.

    Raises
    ------
    InputError
        finufft is not installed.

    Notes
    -----
    finufft's own threads add to the modes in the order in which they finish, so that two runs
    differ in the last bits.  Here each thread has a share of the points and single-threaded
    plans, and the shares are added in their order.
    """

    def __init__(self, comm: MPI.Comm, dimensions: int, count: int, precision: float) -> None:
        self._comm = comm
        self._shape = (count,) * dimensions
        self._precision = precision
        self.real = np.dtype(np.float32 if precision >= 1e-5 else np.float64)
        self.complex = np.dtype(np.complex64 if precision >= 1e-5 else np.complex128)
        self._plans: dict[tuple[int, int, int], Any] = {}

    def place(self, angles: np.ndarray) -> None:
        """Set this rank's points, shape (local_rows, dimensions), in [-pi, pi)."""
        self._angles = [np.ascontiguousarray(column, dtype=self.real) for column in angles.T]
        self._rows = len(angles)
        worth = self._rows // max(POINTS_PER_THREAD, math.prod(self._shape) // 8)
        shares = max(1, min(numba.get_num_threads(), worth))
        cuts = [self._rows * share // shares for share in range(shares + 1)]
        self._shares = [slice(*ends) for ends in pairwise(cuts)] if self._rows else []
        self._placed: set[tuple[int, int, int]] = set()

    def to_modes(self, strengths: np.ndarray) -> np.ndarray:
        """Modes sum_n s_n exp(-i k.x_n) over all ranks' points, shape (sets, count, ...).

        Parameters
        ----------
        strengths
            Real or complex, shape (sets, local_rows).
        """
        modes = np.zeros((len(strengths), *self._shape), dtype=self.complex)
        strengths = np.asarray(strengths, dtype=self.complex)
        for part in self._execute(1, len(strengths), lambda share: strengths[:, share]):
            np.add(modes, part.reshape(modes.shape), out=modes)
        return sum_large(self._comm, modes)

    def at_points(self, modes: np.ndarray) -> np.ndarray:
        """Fourier series sum_k f_k exp(i k.x) at this rank's points, shape (sets, local_rows)."""
        sets = len(modes)
        modes = np.ascontiguousarray(modes, dtype=self.complex)
        values = np.empty((sets, self._rows), dtype=self.complex)
        for share, part in zip(self._shares, self._execute(2, sets, lambda _: modes), strict=True):
            values[:, share] = part.reshape(sets, -1)
        return values

    def _execute(
        self, kind: int, sets: int, given: Callable[[slice], np.ndarray]
    ) -> list[np.ndarray]:
        """What each share's transform makes of what it is given."""
        plans = [self._plan(kind, sets, number) for number in range(len(self._shares))]

        def transform(number: int) -> np.ndarray:
            plan, share = plans[number], self._shares[number]
            if (kind, sets, number) not in self._placed:
                plan.setpts(*(angles[share] for angles in self._angles))
                self._placed.add((kind, sets, number))
            return np.asarray(plan.execute(np.ascontiguousarray(given(share))))

        if len(plans) < 2:
            return [transform(number) for number in range(len(plans))]
        with ThreadPoolExecutor(len(plans)) as threads:
            return list(threads.map(transform, range(len(plans))))

    def _threads_inside(self, kind: int) -> int:
        # Evaluation is the same to the bit by any threads; those pay for large boxes alone.
        alone = kind == 2 and len(self._shares) == 1
        return numba.get_num_threads() if alone and math.prod(self._shape) >= LARGE_BOX else 1

    def _plan(self, kind: int, sets: int, share: int) -> Any:
        import finufft

        if (kind, sets, share) not in self._plans:
            self._plans[kind, sets, share] = finufft.Plan(
                kind,
                self._shape,
                n_trans=sets,
                eps=self._precision,
                isign=-1 if kind == 1 else 1,
                dtype=self.complex.name,
                nthreads=self._threads_inside(kind),
            )
        return self._plans[kind, sets, share]


def has_finufft() -> bool:
    """Whether the library of non-uniform FFTs is installed."""
    return importlib.util.find_spec("finufft") is not None


def require_finufft() -> None:
    """Raise InputError, with what to install, unless finufft is there."""
    if not has_finufft():
        raise InputError(
            "repulsion by a grid needs finufft, which this installation lacks; install it with "
            "pip install finufft, or use repulsion = 'exact'"
        )
