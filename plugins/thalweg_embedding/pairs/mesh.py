"""Sums of point sources on a regular mesh: spreading, convolution by FFT, interpolation.

As MATHEMATICS.md tells under "How all pairs are summed"; the window's own transform is divided out
of the modes.

All points lie in the lower half of the periodic mesh, so that nothing wraps round, and the
transforms skip what is known to be zero.

A mesh may lie on the ranks in slabs: each rank spreads its points to the rows of the mesh that
they reach, these go to the ranks that have them for the transforms and are added there, and each
axis is whole on a rank in turn, by a transposition.  No rank then holds the whole mesh, and each
sends about its share of it in each of these exchanges.

Meshes and modes are arrays of three axes; those that a mesh does not have are of length 1.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numba
import numpy as np
import scipy.fft

from thalweg.parallel import (
    MPI,
    Layout,
    RowRoutes,
    exchange_rows,
    rows_at,
    sum_large,
    sum_over_ranks,
)
from thalweg_embedding.pairs.cells import Cells
from thalweg_embedding.pairs.mesh_loops import convolve, energy, interpolate, spread

#: Groups of neighboring mesh rows whose points are spread one after another by one thread.
MAX_GROUPS = 64

#: Mesh points of a window's innermost axis are padded to this many: full vector registers.
PAD = 8


@dataclass(frozen=True)
class Window:
    """Window that spreads a point over mesh points along one axis."""

    taps: int  # mesh points that a point reaches
    oversampling: float  # mesh points per Fourier mode that is kept
    #: Polynomials of the taps' weights, highest power first, shape (degree + 1, padded taps).
    coefficients: np.ndarray

    @classmethod
    @cache
    def of(cls, tolerance: float) -> "Window":
        """The narrowest window whose errors stay below a tenth of ``tolerance``."""
        decades = -math.log10(tolerance)
        taps = int(min(16, max(4, math.ceil(1.35 * decades + 2.0))))
        oversampling = 1.5 if decades < 4.5 else 2.0
        padded = PAD * -(-taps // PAD)
        degree = min(taps + 4, 16)
        nodes = np.cos(np.pi * (np.arange(64) + 0.5) / 64)
        coefficients = np.zeros((degree + 1, padded))
        for tap in range(taps):
            values = _semicircle(2.0 * (0.5 * (nodes + 1.0) + tap) / taps - 1.0, taps, oversampling)
            fitted = np.polynomial.Chebyshev.fit(nodes, values, degree, domain=[-1, 1])
            powers = fitted.convert(kind=np.polynomial.Polynomial).coef
            coefficients[degree + 1 - len(powers) :, tap] = powers[::-1]
        return cls(taps, oversampling, coefficients)

    def transform(self, angles: np.ndarray) -> np.ndarray:
        """Fourier transform of the window at wave numbers in radians per mesh point."""
        nodes, weights = np.polynomial.legendre.leggauss(4 * self.taps + 20)
        values = _semicircle(nodes, self.taps, self.oversampling) * weights
        half = 0.5 * self.taps
        return np.asarray(half * np.cos(np.multiply.outer(angles * half, nodes)) @ values)


def _semicircle(z: np.ndarray, taps: int, oversampling: float) -> np.ndarray:
    beta = 0.97 * math.pi * taps * (1.0 - 0.5 / oversampling)
    inside = np.sqrt(np.maximum(1.0 - z * z, 0.0))
    return np.where(np.abs(z) <= 1.0, np.exp(beta * (inside - 1.0)), 0.0)


@dataclass(frozen=True)
class Reached:
    """This rank's points, and the rows of the mesh that they reach.

    Rows lie across the first axis, lines along the last; of two dimensions these are the same.
    """

    cells: Cells
    #: Places in the order of the cells where groups of rows of cells begin.  Two groups that are
    #: not neighbors reach no common mesh point.
    groups: np.ndarray
    #: First of the rows, and their number; of a mesh that is whole on all ranks, all rows.
    first: int
    count: int
    #: Lines of this rank's slab of the mesh, counted from its first, that arrive by the routes.
    lines: np.ndarray
    #: Routes of the lines to the ranks that transform them; None where the mesh is whole.
    routes: RowRoutes | None = None


class Mesh:
    """A mesh for points in a box of side ``reach``, whatever their place and number.

    The periodic box has the side ``period``, at least twice ``reach``, and ``count`` Fourier modes
    in each dimension.  ``shared``: whether each rank has a slab of the mesh, and its points lie
    close together; else each has the whole, as always of a mesh of one dimension.  The ranks of
    ``comm`` share the transforms: COMM_SELF of a whole mesh.
    """

    def __init__(
        self, comm: MPI.Comm, dimensions: int, reach: float, period: float, count: int,
        window: Window, real: np.dtype, shared: bool = False,
    ) -> None:  # fmt: skip
        self._all_ranks = comm
        self._shared = shared and dimensions > 1
        self.comm = comm if self._shared else MPI.COMM_SELF
        self._reach = reach
        self.dimensions = dimensions
        self.real = real
        self.window = window
        least = max(math.ceil(window.oversampling * count), 2 * window.taps)
        self.size = scipy.fft.next_fast_len(least, real=True)
        self.size += self.size % 2
        self.spacing = period / self.size
        # Mesh points that the points of the box reach, in the axes that there are.
        self.used = min(self.size, math.ceil(reach / self.spacing) + window.taps + 1)
        self.kept = count // 2
        # The axis of rows is shared out before its transform, and the next one after it.
        self._row_axis = row_axis = min(1, 3 - dimensions)
        rows = self.used if dimensions > 1 else 1
        columns = self.size if dimensions > 2 else self.kept
        self._slabs = Transposition(self.comm, rows, columns, (row_axis, row_axis + 1))
        self._lines_of_row = self.used if dimensions > 2 else 1
        self._coefficients = window.coefficients.astype(real)
        numbers = np.arange(self.kept)
        self.wave = 2.0 * math.pi / period
        self.deconvolution = 1.0 / window.transform(2.0 * math.pi / self.size * numbers)

    def reached(self, cells: Cells) -> Reached:
        """Points in the form that :meth:`modes` and :meth:`at_points` take.  Collective.

        ``cells`` has coordinates from the middle of the box.
        """
        # First point of each row of cells along the first axis, and the number of points.
        first_points = cells.starts[:: int(np.prod(cells.along[1:]))]
        least = math.ceil((self.window.taps + 1) * self.spacing / cells.side)
        share, starts, row = cells.order.size / MAX_GROUPS, [0], 0
        for next_row in range(least, len(first_points) - least):
            if next_row - row >= least and first_points[next_row] - starts[-1] >= share:
                starts.append(int(first_points[next_row]))
                row = next_row
        groups = np.array([*starts, cells.order.size], dtype=np.int64)
        if not self._shared:
            return Reached(cells, groups, 0, self.used, np.arange(0))
        rows, width = range(0), self._lines_of_row
        if cells.order.size:  # rows of the mesh that this rank's points reach
            scale, shift, taps = self._places()
            along = cells.points[0, : cells.order.size]
            low, high = float(along.min()), float(along.max())
            # A row more on either side, since compilers round in different ways.
            first = max(0, math.floor(low * scale + shift - 0.5 * taps) - 1)
            rows = range(first, min(self.used, math.ceil(high * scale + shift + 0.5 * taps) + 2))
        lines = np.arange(rows.start * width, rows.stop * width)
        routes = RowRoutes(self.comm, self._slabs.rows.owners(lines // width))
        lines = routes.deliver(lines) - self._slabs.rows.start * width
        return Reached(cells, groups, rows.start, len(rows), lines, routes)

    def _shape(self, reached: Reached) -> list[int]:
        """Shape of the mesh rows that points reach, padded at their ends; always of three axes."""
        lengths = [reached.count, *(self.used,) * (self.dimensions - 1)]
        lengths[-1] += self.window.coefficients.shape[1]
        return [1] * (3 - self.dimensions) + lengths

    def modes(self, reached: Reached, strengths: np.ndarray | None = None) -> np.ndarray:
        """Modes of the density of all ranks' points, of these strengths or of ones.  Collective.

        Of three axes, in the order of an FFT: all wave numbers of the first two, and 0 ... kept - 1
        of the last; of the second axis, or of the last in two dimensions, this rank's part.
        Strengths are in the order of the cells.
        """
        mesh = np.zeros(self._shape(reached), dtype=self.real)
        cells = reached.cells
        weights = np.empty(0, self.real) if strengths is None else strengths.astype(self.real)
        where = (reached.first, *self._places(), self._coefficients)
        spread(cells.points, weights, reached.groups, *where, mesh)
        if reached.routes is None:
            density = np.asarray(sum_large(self._all_ranks, mesh)[..., : self.used])
        else:  # the sum of what all ranks spread to this rank's lines
            received = reached.routes.deliver(mesh.reshape(-1, mesh.shape[2])[:, : self.used])
            rows, begin = self._slabs.rows.local_rows, 0
            lines = np.zeros((rows * self._lines_of_row, self.used), self.real)
            for count in reached.routes.received:
                lines[reached.lines[begin : begin + count]] += received[begin : begin + count]
                begin += count
            first = (rows, self._lines_of_row) if self.dimensions > 2 else (1, rows)
            density = lines.reshape(*first, self.used)
        workers = numba.get_num_threads() if density.size > 2**17 else 1
        modes = _transformed("rfft", density, self.size, 2, workers)[..., : self.kept]
        for axis in range(1, 2 - self.dimensions, -1):
            if axis == self._row_axis:
                modes = self._slabs.to_columns(modes)
            modes = _transformed("fft", modes, self.size, axis, workers)
        return modes

    def influence(self, modes: np.ndarray) -> np.ndarray:
        """Factors of a density's modes that give those of its potential by a function.  Collective.

        ``modes`` are those of a :class:`~thalweg_embedding.pairs.spectrum.Spectrum`.  The factors
        are for wave numbers of both signs, and divided by the window's transform.
        """
        first, second, last = (np.abs(self._numbers(axis)) for axis in range(3))
        whole = np.zeros((len(first), len(second), len(last)))
        outer, middle = first < self.kept, second < self.kept
        comm = self.comm if self._row_axis == 0 else MPI.COMM_SELF
        half = Layout(comm, self.kept + 1 if self.dimensions > 1 else 1)
        lines = rows_at(half, np.moveaxis(modes, 1, 0), second[middle])
        whole[np.ix_(outer, middle)] = np.moveaxis(lines[:, first[outer]], 0, 1)
        for axis, numbers in enumerate((first, second, last)):
            if axis >= 3 - self.dimensions:
                factors = self.deconvolution[np.minimum(numbers, self.kept - 1)] ** 2
                whole *= np.expand_dims(factors, tuple({0, 1, 2} - {axis}))
        return np.ascontiguousarray(whole, dtype=self.real)

    def _numbers(self, axis: int) -> np.ndarray:
        """This rank's wave numbers along one of three axes."""
        size = self.size if axis >= 3 - self.dimensions else 1
        numbers = np.fft.fftfreq(size, 1.0 / size).astype(np.int64)
        if axis == 2:
            numbers = np.arange(self.kept)
        return self._slabs.columns.local(numbers) if axis == self._row_axis + 1 else numbers

    def energy(self, density: np.ndarray, influence: np.ndarray) -> float:
        """Sum over all pairs of points, each with itself too (Parseval's identity).  Collective."""
        sums = np.empty(density.shape[0] * density.shape[1])
        energy(density, influence, self._slabs.columns.start if self._row_axis == 1 else 0, sums)
        return float(sum_over_ranks(self.comm, float(sums.sum())))

    def slope(self, density: np.ndarray, influence: np.ndarray, axis: int) -> np.ndarray:
        """Modes of half the potential's derivative along an axis."""
        product = np.empty_like(density)
        axis += 3 - self.dimensions
        convolve(density, influence, self.wave * self._numbers(axis), axis, product)
        return product

    def waves(self, axis: int) -> np.ndarray:
        """Wave numbers along an axis in radians per unit, shaped to multiply modes."""
        axis += 3 - self.dimensions
        waves = (self.wave * self._numbers(axis)).astype(self.real)
        return np.expand_dims(waves, tuple({0, 1, 2} - {axis}))

    def at_points(self, series: Iterable[np.ndarray], reached: Reached) -> np.ndarray:
        """Real Fourier series at the points, as :meth:`interpolated` returns them.  Collective.

        The modes of each are overwritten.
        """
        return self.interpolated(self.fields(series, reached), reached)

    def fields(self, series: Iterable[np.ndarray], reached: Reached) -> np.ndarray:
        """Real Fourier series on the rows of the mesh that points reach, padded.  Collective.

        The modes of each are overwritten; the last axis of the result has their number.
        """
        fields = [self._field(modes, reached) for modes in series]
        mesh = np.zeros((*self._shape(reached), len(fields)), dtype=self.real)
        for number, field in enumerate(fields):
            mesh[..., : self.used, number] = field
        return mesh

    def _field(self, modes: np.ndarray, reached: Reached) -> np.ndarray:
        workers = numba.get_num_threads() if modes.size > 2**17 else 1
        for axis in range(3 - self.dimensions, 2):
            modes = _transformed("ifft", modes, modes.shape[axis], axis, workers)
            modes = modes[: self.used] if axis == 0 else modes[:, : self.used]
            if axis == self._row_axis:
                modes = self._slabs.to_rows(modes)
        field = _transformed("irfft", modes, self.size, 2, workers)[..., : self.used]
        if reached.routes is None:
            return field
        field = np.ascontiguousarray(field).reshape(-1, self.used)[reached.lines]
        return reached.routes.give_back(field).reshape(*self._shape(reached)[:2], self.used)

    def interpolated(self, fields: np.ndarray, reached: Reached) -> np.ndarray:
        """What :meth:`fields` returns, at the points, in the order of the cells; a column each."""
        cells = reached.cells
        values = np.empty((cells.order.size, fields.shape[-1]), dtype=self.real)
        where = (reached.first, *self._places(), self._coefficients)
        # All lengths are given, since a rank may have no points.
        beside = fields.reshape(*fields.shape[:2], fields.shape[2] * fields.shape[3])
        interpolate(cells.points, *where, beside, values)
        return values

    def _places(self) -> tuple[float, float, int]:
        """Mesh coordinate of a point: coordinate times the first number plus the second."""
        shift = 0.5 * self._reach / self.spacing + 0.5 * self.window.taps
        return 1.0 / self.spacing, shift, self.window.taps


def _transformed(kind: str, values: np.ndarray, size: int, axis: int, workers: int) -> np.ndarray:
    """One of SciPy's transforms along an axis, to so many numbers; the inverse ones unscaled.

    SciPy refuses to transform nothing, which a rank may have.
    """
    if not values.size:
        real = kind == "irfft"
        shape = list(values.shape)
        shape[axis] = size // 2 + 1 if kind == "rfft" else size
        return np.zeros(shape, values.real.dtype if real else np.result_type(values, np.complex64))
    norm = "forward" if kind.startswith("i") else "backward"
    options = {"axis": axis, "workers": workers, "norm": norm, "overwrite_x": kind == "ifft"}
    return np.asarray(getattr(scipy.fft, kind)(values, size, **options))


class Transposition:
    """An array with one axis shared out over the ranks, turned so that another one is, and back.

    ``rows`` and ``columns`` are the lengths of the two axes, either of which is shared out evenly,
    and ``axes`` their numbers.  Each rank sends 1 - 1/P of its part, in P - 1 messages.
    """

    def __init__(self, comm: MPI.Comm, rows: int, columns: int, axes: tuple[int, int]) -> None:
        self.rows, self.columns = Layout(comm, rows), Layout(comm, columns)
        self._row_axis, self._column_axis = axes

    def to_columns(self, block: np.ndarray) -> np.ndarray:
        """From this rank's part of the rows, and all columns, to the opposite.  Collective."""
        return _turned(block, self.columns, self._column_axis, self.rows, self._row_axis)

    def to_rows(self, block: np.ndarray) -> np.ndarray:
        """From this rank's part of the columns, and all rows, to the opposite.  Collective."""
        return _turned(block, self.rows, self._row_axis, self.columns, self._column_axis)


def _turned(
    block: np.ndarray, split: Layout, split_axis: int, joined: Layout, joined_axis: int
) -> np.ndarray:
    """``block`` with one axis, which is whole, cut up for the ranks, and another one made whole."""
    shape = list(block.shape)
    shape[split_axis], shape[joined_axis] = split.local_rows, joined.rows
    if split.comm.size == 1 and list(block.shape) == shape:
        return block
    others = [n for axis, n in enumerate(shape) if axis not in (split_axis, joined_axis)]
    width = int(np.prod(others, dtype=np.int64))
    sent = split.counts() * (width * joined.local_rows)
    received = joined.counts() * (width * split.local_rows)
    parts = np.split(block, split.starts[1:-1], axis=split_axis)
    entries = np.concatenate([part.ravel() for part in parts])
    pieces = np.split(exchange_rows(split.comm, entries, sent, received), np.cumsum(received)[:-1])
    shapes = ((*shape[:joined_axis], n, *shape[joined_axis + 1 :]) for n in joined.counts())
    shaped = [piece.reshape(each) for piece, each in zip(pieces, shapes, strict=True)]
    return np.concatenate(shaped, axis=joined_axis)
