"""Streamed Gaussian kernel sums equal the sums written out."""

import numpy as np
import pytest

from thalweg.parallel import MPI, Layout
from thalweg_clustering import kernel_sums
from thalweg_clustering.kernel_sums import MAX_COMPILED_COLUMNS, KernelSums

ROWS, WEIGHTS = 301, ("factor", "signs")


def _gaussian(beta):
    return np.exp(-0.5 * beta)


def _cauchy(beta):
    return 1 / (1 + beta)


def _cubic(beta):
    return (beta + 1) ** 3


def _written_out(
    z, values, factor=None, signs=None, tangent=None, function=_gaussian, of="distance"
):
    difference = z[:, None] - z[None]
    weights = function(z @ z.T if of == "product" else (difference**2).sum(-1))
    if factor is not None:
        weights = weights * ((factor * signs) @ factor.T)
    if tangent is not None and of == "product":
        weights = weights * (z @ tangent.T + tangent @ z.T)
    elif tangent is not None:
        weights = weights * (difference * (tangent[:, None] - tangent[None])).sum(-1)
    return weights @ values, weights.sum(1)


def _problem(columns):
    stream = np.random.default_rng(3)
    z = stream.standard_normal((ROWS, 3))
    z[7] = z[211]  # duplicated rows
    return {
        "z": z,
        "values": stream.standard_normal((ROWS, columns)),
        "factor": stream.standard_normal((ROWS, 4)),
        "signs": np.array([1.0, -0.3, 2.0, -1.0]),
        "tangent": stream.standard_normal((ROWS, 3)),
    }


def _local_rows(comm):
    """Uneven blocks; the last rank of several holds nothing."""
    if comm.size == 1:
        return ROWS
    counts = [ROWS // (comm.size - 1)] * (comm.size - 1) + [0]
    counts[0] += ROWS - sum(counts)
    return counts[comm.rank]


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("columns", [0, 2, MAX_COMPILED_COLUMNS + 3])
@pytest.mark.parametrize("given", [(), WEIGHTS, (*WEIGHTS, "tangent"), ("tangent",)])
def test_sums_equal_the_sums_written_out(comm, columns, given, monkeypatch):
    for name in ("TILE_ROWS", "TILE_COLUMNS"):  # several, for several threads
        monkeypatch.setattr(kernel_sums, name, 64)
    problem = _problem(columns)
    chosen = {name: problem[name] for name in given}
    expected, totals = _written_out(problem["z"], problem["values"], **chosen)
    for layout in (Layout(comm, ROWS), Layout(comm, ROWS, 1, _local_rows(comm))):
        local = {k: v if k == "signs" else layout.local(v) for k, v in chosen.items()}
        sums, weights = KernelSums(layout).sums(
            layout.local(problem["z"]), layout.local(problem["values"]), **local
        )
        np.testing.assert_allclose(sums, layout.local(expected), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(weights, layout.local(totals), rtol=1e-9, atol=1e-9)


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize(("function", "of"), [(_cauchy, "distance"), (_cubic, "product")])
def test_any_function_of_the_distance_or_the_product(comm, function, of):
    problem = _problem(2)
    layout = Layout(comm, ROWS)
    for names in (WEIGHTS, (*WEIGHTS, "tangent")):
        chosen = {name: problem[name] for name in names}
        expected = _written_out(problem["z"], problem["values"], **chosen, function=function, of=of)
        local = {k: v if k == "signs" else layout.local(v) for k, v in chosen.items()}
        found = KernelSums(layout, function, of).sums(
            layout.local(problem["z"]), layout.local(problem["values"]), **local
        )
        for part, whole in zip(found, expected, strict=True):
            np.testing.assert_allclose(part, layout.local(whole), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("columns", [2, MAX_COMPILED_COLUMNS + 3])
def test_single_precision_keeps_six_digits(columns):
    problem = _problem(columns)
    chosen = {name: problem[name] for name in ("factor", "signs", "tangent")}
    layout = Layout(MPI.COMM_SELF, ROWS)
    expected = _written_out(problem["z"], problem["values"], **chosen)
    sums = KernelSums(layout, dtype=np.float32)
    for part, whole in zip(sums.sums(problem["z"], problem["values"], **chosen), expected,
                           strict=True):  # fmt: skip
        np.testing.assert_allclose(part, whole, atol=3e-6 * abs(whole).max())


@pytest.mark.parametrize("columns", [2, MAX_COMPILED_COLUMNS + 3])
@pytest.mark.parametrize(("function", "of"), [(None, "distance"), (_cubic, "product")])
def test_sums_with_landmarks_equal_the_sums_written_out(function, of, columns, monkeypatch):
    z, values, factor = (_problem(columns)[k] for k in ("z", "values", "factor"))
    few = slice(20)
    sums = KernelSums(Layout(MPI.COMM_SELF, ROWS), function, of)
    own, other = sums.sums_with(z, z[few], values, values[few], factor, factor[few])
    expected = np.zeros((ROWS, 20))  # by one landmark after the other
    for column in range(20):
        unit = np.zeros((ROWS, 1))
        unit[column] = 1.0
        expected[:, column] = _written_out(
            z, unit, factor, np.ones(4), function=function or _gaussian, of=of
        )[0][:, 0]
    extended = np.concatenate([values, np.ones((ROWS, 1))], axis=1)
    np.testing.assert_allclose(own, expected @ extended[few], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(other, expected.T @ extended, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr("thalweg_clustering.kernel_sums.BLOCK_SIZE", 20 * 32)
    tiles = dict[int, np.ndarray]()
    sums.visit_blocks(z, z[few], lambda _, rows, tile: tiles.update({rows.start: tile.copy()}))
    assert len(tiles) == 10
    beta = z @ z[few].T if of == "product" else ((z[:, None] - z[few]) ** 2).sum(-1)
    found = np.concatenate([tiles[start] for start in sorted(tiles)])
    np.testing.assert_allclose(found, (function or _gaussian)(beta), rtol=1e-12)
    empty, none = sums.sums_with(z[:0], z[few], values[:0], values[few])
    assert empty.shape == (0, columns + 1)
    assert not none.any()


@pytest.mark.ranks(1, 2, 3)
def test_absolute_moment_is_the_sum_over_ordered_pairs(comm):
    z, factor, signs, points = (_problem(5)[k] for k in ("z", "factor", "signs", "values"))
    layout = Layout(comm, ROWS)
    found = KernelSums(layout).absolute_moment(
        layout.local(z), layout.local(factor), signs, layout.local(points)
    )
    weights = np.exp(-0.5 * ((z[:, None] - z[None]) ** 2).sum(-1)) * ((factor * signs) @ factor.T)
    lengths = ((points[:, None] - points[None]) ** 2).sum(-1)
    assert found == pytest.approx((abs(weights) * lengths**2).sum(), rel=1e-10)
