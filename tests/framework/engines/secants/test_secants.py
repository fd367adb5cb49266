"""The secant oracle finds what a loop over all pairs finds, at any number of ranks."""

import numpy as np
import pytest
import scipy.sparse

from thalweg.engines.secants.secant_bounds import Accuracy
from thalweg.engines.secants.secant_tiles import TILE, Block, ScanOptions, TileChoice
from thalweg.engines.secants.secants import SecantSet
from thalweg.engines.secants.worst_secants import WorstSecants
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout, sum_over_ranks


def cloud(n, dimension, seed=0):
    random = np.random.default_rng(seed)
    return random.standard_normal((n, dimension)) * np.linspace(3.0, 0.05, dimension) + 5.0


def random_map(rank, dimension, seed=1):
    return np.random.default_rng(seed).standard_normal((rank, dimension)) / np.sqrt(rank)


def all_pairs(points, components):
    points = points.astype(float)
    i, j = np.triu_indices(len(points), 1)
    lengths, mapped = np.empty((2, len(i)))
    end = 0
    for row in range(len(points) - 1):  # all differences at once would take gigabytes
        difference = points[row] - points[row + 1 :]
        begin, end = end, end + len(difference)
        lengths[begin:end] = (difference**2).sum(axis=1)
        mapped[begin:end] = ((difference @ components.T) ** 2).sum(axis=1)
    distinct = lengths > 0
    i, j, lengths, mapped = (a[distinct] for a in (i, j, lengths, mapped))
    return i, j, mapped / lengths - 1.0, lengths


def secants(points, comm, **options):
    layout = Layout(comm, *points.shape)
    return SecantSet(layout.local(points).copy(), layout, **options)


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize(("n", "dimension"), [(60, 7), (1100, 70)])
@pytest.mark.parametrize("n_leading", [0, None, 24])
def test_the_worst_pairs_are_those_of_a_loop_over_all_pairs(comm, n, dimension, n_leading):
    points, components = cloud(n, dimension), random_map(4, dimension)
    i, j, values, lengths = all_pairs(points, components)
    threshold = np.sort(np.abs(values))[-200]
    told = []  # by each rank of its own pairs
    scan = secants(points, comm).scan(
        components, threshold, max_pairs=150, per_row=n, n_leading=n_leading, progress=told.append
    )
    assert sum_over_ranks(comm, sum(told)) == scan.n_pairs
    order = np.lexsort((j, i, -np.abs(values)))[:150]
    assert scan.complete
    assert scan.n_secants == scan.n_pairs == n * (n - 1) // 2
    assert scan.delta_lower <= np.abs(values).max() <= scan.delta
    np.testing.assert_array_equal(scan.pairs, np.stack([i, j], axis=1)[order])
    np.testing.assert_allclose(scan.distortions, values[order], rtol=1e-10)
    np.testing.assert_allclose(scan.lengths, lengths[order], rtol=1e-12)


@pytest.mark.ranks(1, 2, 3)
def test_coincident_points_are_counted_and_close_ones_measured_without_cancellation(comm):
    points = cloud(50, 6)
    points[10] = points[20] = points[41]
    points[30] = points[31] + 1e-9 * np.eye(6)[2]
    components = random_map(3, 6)
    scan = secants(points, comm).scan(components, 0.0, max_pairs=5000, per_row=50)
    assert (scan.n_coincident, scan.n_secants) == (3, 50 * 49 // 2 - 3)
    at = np.flatnonzero((scan.pairs == [30, 31]).all(axis=1))[0]
    difference = points[30] - points[31]
    exact = ((components @ difference) ** 2).sum() / (difference**2).sum() - 1.0
    assert scan.distortions[at] == pytest.approx(exact, rel=1e-13)


@pytest.mark.ranks(1, 2, 3)
def test_the_same_pairs_and_the_same_bits_at_any_number_of_ranks(comm, monkeypatch):
    monkeypatch.setattr("thalweg.engines.secants.tile_scans.PIECE", 2e5)  # blocks go in several
    points, components = cloud(2100, 70, seed=3).astype(np.float32), random_map(5, 70)
    for options in (
        {},
        {"fraction": 0.5, "seed": 7},
        {"n_leading": 30, "n_further": 9, "per_row": 1},
    ):
        together = secants(points, comm).scan(components, 0.5, max_pairs=400, **options)
        alone = secants(points, MPI.COMM_SELF).scan(components, 0.5, max_pairs=400, **options)
        assert (together.delta, together.pair) == (alone.delta, alone.pair)
        assert together.n_pairs == alone.n_pairs
        np.testing.assert_array_equal(together.pairs, alone.pairs)
        np.testing.assert_array_equal(together.distortions, alone.distortions)
        np.testing.assert_array_equal(together.lengths, alone.lengths)


def restricted(kind, points, layout):
    """Options of a secant set, and the weights of the pairs that count, 0 of others."""
    counts, random = np.zeros(2 * (len(points),)), np.random.default_rng(8)
    if kind == "classes":
        labels = random.integers(0, 2, len(points)) * 4 + 3
        return {"labels": labels}, labels[:, None] == labels
    if kind == "neighbors":
        distances = ((points[:, None] - points) ** 2).sum(axis=2)
        np.fill_diagonal(distances, np.inf)
        nearest = np.argsort(distances, axis=1)[:, :4]
        np.put_along_axis(counts, nearest, 1.0, axis=1)
        return {"neighbors": layout.local(nearest)}, np.maximum(counts, counts.T)
    pairs = random.integers(0, len(points), (60, 2))
    pairs = np.concatenate([pairs, pairs[:1, ::-1], [[5, 5]]])  # the first once more
    weights = np.append(random.uniform(0.1, 0.9, 60), [1.0, 1.0]) if "weight" in kind else None
    np.maximum.at(counts, tuple(np.sort(pairs, axis=1).T), 1.0 if weights is None else weights)
    return {"pairs": pairs, "weights": weights}, counts


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("kind", ["classes", "neighbors", "pairs", "weighted pairs"])
def test_secants_can_be_restricted(comm, kind):
    points, components = cloud(90, 5), random_map(2, 5)
    points[7] = points[8]
    options, weights = restricted(kind, points, Layout(comm, 90, 5))
    i, j, values, _ = all_pairs(points, components)
    expected = values * weights[i, j]
    scan = secants(points, comm, **options).scan(components, 0.2, max_pairs=10**5, per_row=200)
    assert scan.n_secants == np.count_nonzero(weights[i, j])
    assert scan.delta_lower <= np.abs(expected).max() <= scan.delta
    reached = np.abs(expected) >= 0.2
    assert sorted(map(tuple, scan.pairs)) == sorted(zip(i[reached], j[reached], strict=True))
    np.testing.assert_allclose(np.sort(scan.distortions), np.sort(expected[reached]))


@pytest.mark.ranks(1, 2)
def test_points_that_cannot_be_used_are_refused_on_all_ranks(comm):
    points = cloud(40, 5)
    points[3, 2] = np.nan
    with pytest.raises(InputError, match="not finite"):
        secants(points, comm)
    with pytest.raises(InputError, match="at least two distinct points"):
        secants(np.ones((40, 5)), comm)
    with pytest.raises(InputError, match="int64 that float64 cannot hold"):
        secants(2**53 + np.arange(40).reshape(-1, 1), comm)
    with pytest.raises(InputError, match="rank x 5"):
        secants(cloud(40, 5), comm).scan(np.ones((2, 4)))


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("fraction", [0.4, 1.0])
def test_a_scan_in_parts_finds_what_one_in_a_piece_finds(comm, fraction):
    points = cloud(2500, 6)
    components = random_map(3, 6)
    options = {"threshold": 0.5, "max_pairs": 400, "per_row": 2, "fraction": fraction, "seed": 3}
    whole = secants(points, comm).scan(components, **options)
    parted = secants(points, comm)
    scan, counts = None, [0]
    for k in range(4):
        scan = parted.scan(components, **options, part=(k, 4), first=3, before=scan)
        assert scan.complete == (k == 3 and fraction == 1.0)
        counts.append(scan.n_pairs)
    assert counts == sorted(counts)
    for name in ("delta", "delta_lower", "pair", "n_pairs", "n_coincident"):
        assert getattr(scan, name) == getattr(whole, name)
    np.testing.assert_array_equal(scan.pairs, whole.pairs)
    np.testing.assert_array_equal(scan.distortions, whole.distortions)
    np.testing.assert_array_equal(scan.lengths, whole.lengths)


def test_listed_secants_are_scanned_in_one_part():
    listed = secants(cloud(10, 3), MPI.COMM_SELF, neighbors=np.arange(1, 11)[:, None] % 10)
    with pytest.raises(InputError, match="one part"):
        listed.scan(random_map(2, 3), part=(0, 2))


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("labels", [None, np.arange(140) % 3])
def test_sparse_points_have_the_secants_of_the_same_points_in_full(comm, labels):
    points = scipy.sparse.random(140, 90, 0.08, random_state=np.random.default_rng(4), format="lil")
    points[7] = points[3]  # coincident
    points[9] = 0.0
    points = points.tocsr()
    components = random_map(5, 90)
    options = {"threshold": 0.3, "max_pairs": 60}
    layout = Layout(comm, *points.shape)
    mine = points[layout.start : layout.stop]
    sparse = SecantSet(mine, layout, labels=labels)
    full = SecantSet(mine.toarray(), layout, labels=labels)
    scans = [found.scan(components, **options) for found in (sparse, full)]
    assert scans[0].delta == pytest.approx(scans[1].delta, rel=1e-12)
    assert (scans[0].pair, scans[0].n_coincident) == (scans[1].pair, scans[1].n_coincident)
    np.testing.assert_array_equal(scans[0].pairs, scans[1].pairs)
    np.testing.assert_allclose(scans[0].lengths, scans[1].lengths, rtol=1e-13)
    part = [found.subset(2).scan(components).delta for found in (sparse, full)]
    assert part[0] == pytest.approx(part[1], rel=1e-12)


@pytest.mark.parametrize("weights", [[0.0, 1.0], [1.0, 1.5], [1.0], [np.nan, 1.0]])
def test_weights_that_do_not_fit_are_refused(weights):
    arguments = cloud(40, 5), MPI.COMM_SELF
    with pytest.raises(InputError, match="weight"):
        secants(*arguments, pairs=np.array([[0, 1], [2, 3]]), weights=np.array(weights))
    with pytest.raises(InputError, match="give the pairs too"):
        secants(*arguments, weights=np.array(weights))


@pytest.mark.parametrize(
    ("pairs", "word"), [([[0, 40]], "not 40"), ([[-1, 2]], "not -1"), ([[0.5, 1.0]], "integers")]
)
def test_pairs_that_are_no_points_are_refused(pairs, word):
    with pytest.raises(InputError, match=word):
        secants(cloud(40, 5), MPI.COMM_SELF, pairs=np.array(pairs))


def test_a_sample_is_the_wanted_share_whatever_the_number_of_points():
    chosen = TileChoice(ScanOptions(fraction=0.25, seed=7), 10**9 * TILE)
    cells = [(r, c) for r in range(0, 10**9, 10**7) for c in range(r, r + 200)]
    assert np.mean([chosen(r * TILE, c * TILE) for r, c in cells]) == pytest.approx(0.25, abs=0.02)
    other = TileChoice(ScanOptions(fraction=0.25, seed=8), 10**9 * TILE)
    both = np.mean([chosen(r * TILE, c * TILE) and other(r * TILE, c * TILE) for r, c in cells])
    assert both == pytest.approx(0.25**2, abs=0.01)
    assert Block(10, (np.arange(5),), np.zeros(15)).part(slice(2, 4)).start == 12


def pairs(count):
    random = np.random.default_rng(0)
    i, j = np.triu_indices(60, 1)
    order = random.permutation(len(i))[:count]
    # Few different values, so that ties are decided by the numbers.
    return i[order], j[order], np.ones(count), 1.0 + random.integers(-5, 6, count) / 10.0


@pytest.mark.ranks(1, 3)
def test_a_rank_keeps_no_more_than_twice_its_share_but_always_the_worst(comm, monkeypatch):
    monkeypatch.setattr("thalweg.engines.secants.worst_secants.SPARE", 4)
    i, j, lengths, mapped = pairs(300)
    keeper = WorstSecants(ScanOptions(0.0, 60, 0), Accuracy.of(np.eye(3)), ranks=comm.size)
    if comm.rank == 0:  # all crowd on one rank
        for part in np.array_split(np.arange(300), 5):
            keeper.listed(i[part], j[part], lengths[part], mapped[part])
    scan = keeper.finish(Layout(comm, 60), 1, True, 300)
    assert len(scan.pairs) == (60 if comm.size == 1 else 2 * 60 // comm.size + 4)
    order = np.lexsort((j, i, -np.abs(mapped - 1.0)))[: len(scan.pairs)]
    np.testing.assert_array_equal(scan.pairs, np.stack([i, j], axis=1)[order])


def test_integers_that_float64_rounds_are_refused_in_sparse_points_too():
    points = scipy.sparse.csr_matrix(np.array([[2**60, 1], [2**60 + 1, 1]]))
    with pytest.raises(InputError, match="cannot hold without loss"):
        SecantSet(points, Layout(MPI.COMM_SELF, 2, 2))
