"""Non-uniform FFTs between points and modes, over the ranks that hold the points."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import MPI, sum_large


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
    """

    def __init__(self, comm: MPI.Comm, dimensions: int, count: int, precision: float) -> None:
        self._comm = comm
        self._dimensions = dimensions
        self._shape = (count,) * dimensions
        self._precision = precision
        self.real = np.dtype(np.float32 if precision >= 1e-5 else np.float64)
        self.complex = np.dtype(np.complex64 if precision >= 1e-5 else np.complex128)
        self._plans: dict[tuple[int, int], Any] = {}

    def place(self, angles: np.ndarray) -> None:
        """Set this rank's points, shape (local_rows, dimensions), in [-pi, pi)."""
        self._angles = [np.ascontiguousarray(column, dtype=self.real) for column in angles.T]
        self._placed: set[tuple[int, int]] = set()

    def _plan(self, kind: int, count: int) -> Any:
        import finufft
        import numba

        if (kind, count) not in self._plans:
            self._plans[kind, count] = finufft.Plan(
                kind,
                self._shape,
                n_trans=count,
                eps=self._precision,
                isign=-1 if kind == 1 else 1,
                dtype=self.complex.name,
                nthreads=numba.get_num_threads(),
            )
        plan = self._plans[kind, count]
        if (kind, count) not in self._placed:
            plan.setpts(*self._angles)
            self._placed.add((kind, count))
        return plan

    def to_modes(self, strengths: np.ndarray) -> np.ndarray:
        """Modes sum_n s_n exp(-i k.x_n) over all ranks' points, shape (sets, count, ...).

        Parameters
        ----------
        strengths
            Real or complex, shape (sets, local_rows).
        """
        sets = len(strengths)
        if len(self._angles[0]):
            plan = self._plan(1, sets)
            modes = plan.execute(np.ascontiguousarray(strengths, dtype=self.complex))
            modes = np.asarray(modes).reshape(sets, *self._shape)
        else:
            modes = np.zeros((sets, *self._shape), dtype=self.complex)
        return sum_large(self._comm, modes)

    def at_points(self, modes: np.ndarray) -> np.ndarray:
        """Fourier series sum_k f_k exp(i k.x) at this rank's points, shape (sets, local_rows)."""
        sets = len(modes)
        if not len(self._angles[0]):
            return np.zeros((sets, 0), dtype=self.complex)
        values = self._plan(2, sets).execute(np.ascontiguousarray(modes, dtype=self.complex))
        return np.asarray(values).reshape(sets, -1)


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
