"""Sums of point sources on a regular mesh: spreading, convolution by FFT, interpolation.

Points are spread to the mesh by a window of a few mesh points, the mesh is transformed,
multiplied by a function's Fourier modes, transformed back, and interpolated at the points with
the same window.  The window is the exponential of a semicircle of Barnett, Magland and af
Klinteberg (2019), "A parallel nonuniform fast Fourier transform library based on an
'exponential of semicircle' kernel", whose own transform is divided out of the modes.

All points lie in the lower half of the periodic mesh, so that nothing wraps round, and the
transforms skip what is known to be zero.

A mesh may lie on the ranks in parts: each rank spreads its points to the lines of the mesh that
they reach, these go to the ranks that have them for the transforms and are added there, and each
axis is whole on a rank in turn, by transposition.  The parts are slabs, or pencils of a mesh of
three dimensions that has fewer rows than there are ranks.  No rank then holds the whole mesh, and
each sends about its share of it in each of these exchanges.

Meshes and modes are arrays of three axes; those that a mesh does not have are of length 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numba
import numpy as np
import scipy.fft

from thalweg.parallel import MPI, Layout, RowRoutes, rows_at, sum_large, sum_over_ranks
from thalweg_embedding.pairs.cells import Cells
from thalweg_embedding.pairs.mesh_loops import convolve, energy, interpolate, spread
from thalweg_embedding.pairs.pencils import RankGrid, grid_shape
from thalweg_embedding.pairs.window import Window

#: Groups of neighboring mesh rows whose points are spread one after another by one thread.
MAX_GROUPS = 64


@dataclass(frozen=True)
class Reached:
    """This rank's points, and the rows and lines of the mesh that they reach.

    Rows lie across the first axis, lines along the last; of two dimensions these are the same.
    """

    cells: Cells
    #: Places in the order of the cells where groups of rows of cells begin.  Two groups that are
    #: not neighbors reach no common mesh point.
    groups: np.ndarray
    #: First of the rows, and their number; of a mesh that is whole on all ranks, all rows.
    first: int
    count: int
    #: Lines of this rank's part of the mesh, counted from its first, that arrive by the routes.
    places: np.ndarray
    #: Routes of the lines to the ranks that transform them; None where the mesh is whole.
    routes: RowRoutes | None = None


def process_grid(ranks: int, dimensions: int, rows: int, modes: int) -> tuple[int, int]:
    """Shape of the grid of ranks over the first two of a mesh's three axes.

    Rows of two dimensions lie along the second axis.  Three dimensions are in slabs, and in pencils
    where there are more ranks than ``rows`` along an axis; ``modes`` are those along the last.
    """
    return (1, ranks) if dimensions < 3 else grid_shape(ranks, rows, modes)


class Mesh:
    """A mesh for points in a box of side ``reach``, whatever their place and number.

    The periodic box has the side ``period``, at least twice ``reach``, and ``count`` Fourier modes
    in each dimension.  ``shared``: whether each rank has a part of the mesh, and its points lie
    close together; else each has the whole, as always of a mesh of one dimension.  Ranks of
    ``grid`` share the transforms; those beyond the lines of a mesh, and in two dimensions beyond
    its rows or modes along one axis, take no part in them.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        dimensions: int,
        reach: float,
        period: float,
        count: int,
        window: Window,
        real: np.dtype,
        shared: bool = False,
    ) -> None:
        self._comm = comm
        self._shared = shared and dimensions > 1
        self._reach = reach
        self.dimensions = dimensions
        self.real = real
        self.window = window
        self.size = scipy.fft.next_fast_len(
            max(math.ceil(window.oversampling * count), 2 * window.taps), real=True
        )
        self.size += self.size % 2
        self.spacing = period / self.size
        # Mesh points that the points of the box reach, in the axes that there are.
        self.used = min(self.size, math.ceil(reach / self.spacing) + window.taps + 1)
        self.kept = count // 2
        # Two axes are shared out at a time: before transforms the first two, of these lengths.
        self._lengths = (self.used if dimensions > 2 else 1, self.used if dimensions > 1 else 1)
        comm = comm if self._shared else MPI.COMM_SELF
        self.grid = RankGrid(comm, process_grid(comm.size, dimensions, self.used, self.kept))
        middle = self.size if dimensions > 1 else 1
        self._across, self._along = self.grid.transpositions(*self._lengths, middle, self.kept)
        self._middle = slice(self._along.columns.start, self._along.columns.stop)
        self._columns = slice(self._across.columns.start, self._across.columns.stop)
        self._coefficients = window.coefficients.astype(real)
        numbers = np.arange(self.kept)
        self.wave = 2.0 * math.pi / period
        self.deconvolution = 1.0 / window.transform(2.0 * math.pi / self.size * numbers)

    def reached(self, cells: Cells) -> Reached:
        """Points in the form that :meth:`modes` and :meth:`at_points` take.  Collective.

        ``cells`` has coordinates from the middle of the box.
        """
        groups = self._groups(cells)
        if not self._shared:
            return Reached(cells, groups, 0, self.used, np.arange(0))
        rows = self._range(cells, 0)
        if self.dimensions == 2:
            first, second, lines_in_row = range(1), rows, 1
        else:
            first, second, lines_in_row = rows, self._range(cells, 1), self.used
        i = np.repeat(np.array(first, dtype=np.int64), len(second))
        j = np.tile(np.array(second, dtype=np.int64), len(first))
        begin, count = rows.start * lines_in_row, len(rows) * lines_in_row
        owners = self.grid.owners(i, j, self._lengths)
        routes = RowRoutes(self._comm, owners, i * self.used + j - begin)
        i, j = np.divmod(routes.deliver(np.arange(begin, begin + count)), self.used)
        width = self._across.rows.local_rows
        places = (i - self._along.rows.start) * width + j - self._across.rows.start
        return Reached(cells, groups, rows.start, len(rows), places, routes)

    def _range(self, cells: Cells, axis: int) -> range:
        """Mesh points along an axis that this rank's points reach."""
        if not cells.order.size:
            return range(0)
        scale, shift, taps = self._places()
        along = cells.points[axis, : cells.order.size]
        low, high = float(along.min()), float(along.max())
        # A row more on either side, since compilers round in different ways.
        first = max(0, math.floor(low * scale + shift - 0.5 * taps) - 1)
        return range(first, min(self.used, math.ceil(high * scale + shift + 0.5 * taps) + 2))

    def _shape(self, reached: Reached) -> list[int]:
        """Shape of the mesh rows that points reach, padded at their ends; always of three axes."""
        lengths = [reached.count, *(self.used,) * (self.dimensions - 1)]
        lengths[-1] += self.window.coefficients.shape[1]
        return [1] * (3 - self.dimensions) + lengths

    def modes(self, reached: Reached, strengths: np.ndarray | None = None) -> np.ndarray:
        """Modes of the density of all ranks' points, of these strengths or of ones.  Collective.

        Of three axes, in the order of an FFT: all wave numbers of the first axis, this rank's of
        the second, and of the last its part of 0 ... kept - 1.  Strengths are in the order of the
        cells.
        """
        mesh = np.zeros(self._shape(reached), dtype=self.real)
        cells = reached.cells
        weights = np.empty(0, self.real) if strengths is None else strengths.astype(self.real)
        where = (reached.first, *self._places(), self._coefficients)
        spread(cells.points, weights, reached.groups, *where, mesh)
        density = self._summed(mesh, reached)
        workers = numba.get_num_threads() if density.size > 2**17 else 1
        modes = _transformed("rfft", density, self.size, 2, workers)[..., : self.kept]
        modes = self._across.to_columns(modes)
        if self.dimensions > 1:
            modes = _transformed("fft", modes, self.size, 1, workers)
        modes = self._along.to_columns(modes)
        if self.dimensions > 2:
            modes = _transformed("fft", modes, self.size, 0, workers)
        return modes

    def _summed(self, mesh: np.ndarray, reached: Reached) -> np.ndarray:
        """This rank's lines of the mesh for transforms: the sum of what all ranks spread."""
        if reached.routes is None:
            return np.asarray(sum_large(self._comm, mesh)[..., : self.used])
        received = reached.routes.deliver(mesh.reshape(-1, mesh.shape[2])[:, : self.used])
        shape = self._along.rows.local_rows, self._across.rows.local_rows, self.used
        lines = np.zeros((shape[0] * shape[1], self.used), self.real)
        begin = 0
        for count in reached.routes.received:
            lines[reached.places[begin : begin + count]] += received[begin : begin + count]
            begin += count
        return lines.reshape(shape)

    def influence(self, modes: np.ndarray) -> np.ndarray:
        """Factors of a density's modes that give those of its potential by a function.  Collective.

        ``modes`` are the function's, for wave numbers 0 ... count/2 in each dimension, divided by
        count^d: this rank's part of the second axis, shared out over the rows of the grid, and of 0
        ... kept - 1 in the last axis.  The factors are for wave numbers of both signs, and divided
        by the window's transform.
        """
        first, second = (np.abs(self._numbers(axis)) for axis in (0, 1))
        whole = np.zeros((len(first), len(second), modes.shape[2]))
        if not self.grid.takes_part:
            return whole.astype(self.real)
        outer, middle = first < self.kept, second < self.kept
        half = Layout(self.grid.along, self.kept + 1 if self.dimensions > 1 else 1)
        lines = rows_at(half, np.moveaxis(modes, 1, 0), second[middle])
        whole[np.ix_(outer, middle)] = np.moveaxis(lines[:, first[outer]], 0, 1)
        last = np.arange(self._columns.start, self._columns.stop)
        for axis, numbers in enumerate((first, second, last)):
            if axis >= 3 - self.dimensions:
                shape = [1, 1, 1]
                shape[axis] = -1
                factors = self.deconvolution[np.minimum(numbers, self.kept - 1)] ** 2
                whole *= factors.reshape(shape)
        return np.ascontiguousarray(whole, dtype=self.real)

    def _numbers(self, axis: int) -> np.ndarray:
        """This rank's wave numbers along one of three axes."""
        if axis == 2:
            return np.arange(self._columns.start, self._columns.stop)
        size = self.size if axis >= 3 - self.dimensions else 1
        numbers = np.fft.fftfreq(size, 1.0 / size).astype(np.int64)
        return numbers[self._middle] if axis == 1 else numbers

    def energy(self, density: np.ndarray, influence: np.ndarray) -> float:
        """Sum over all pairs of points, each with itself too (Parseval's identity).  Collective."""
        sums = np.empty(density.shape[0] * density.shape[1])
        energy(density, influence, self._columns.start, sums)
        return float(sum_over_ranks(self.grid.comm, float(sums.sum())))

    def slope(self, density: np.ndarray, influence: np.ndarray, axis: int) -> np.ndarray:
        """Modes of half the potential's derivative along an axis."""
        product = np.empty_like(density)
        axis += 3 - self.dimensions
        convolve(density, influence, self.wave * self._numbers(axis), axis, product)
        return product

    def waves(self, axis: int) -> np.ndarray:
        """Wave numbers along an axis in radians per unit, shaped to multiply modes."""
        axis += 3 - self.dimensions
        shape = [1, 1, 1]
        shape[axis] = -1
        return (self.wave * self._numbers(axis)).reshape(shape).astype(self.real)

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
        if self.dimensions > 2:
            modes = _transformed("ifft", modes, modes.shape[0], 0, workers)[: self.used]
        modes = self._along.to_rows(modes)
        if self.dimensions > 1:
            modes = _transformed("ifft", modes, modes.shape[1], 1, workers)[:, : self.used]
        field = _transformed("irfft", self._across.to_rows(modes), self.size, 2, workers)
        field = field[..., : self.used]
        if reached.routes is None:
            return field
        lines = np.zeros([*self._shape(reached)[:2], self.used], dtype=self.real)
        flat = lines.reshape(-1, self.used)
        field = np.ascontiguousarray(field).reshape(-1, self.used)
        flat[reached.routes.rows] = reached.routes.give_back(field[reached.places])
        return lines

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

    def _groups(self, cells: Cells) -> np.ndarray:
        """Starts of the groups of rows of cells, as in :class:`Reached`."""
        rows = cells.row_starts
        least = math.ceil((self.window.taps + 1) * self.spacing / cells.side)
        share = cells.order.size / MAX_GROUPS
        starts = [0]
        row = 0
        for next_row in range(least, len(rows) - least):
            if next_row - row >= least and rows[next_row] - starts[-1] >= share:
                starts.append(int(rows[next_row]))
                row = next_row
        return np.array([*starts, cells.order.size], dtype=np.int64)


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
