"""Certificates hold what a loop over all pairs finds, and no embedding beats the rank bounds."""

import importlib.util
import itertools
import json
import re

import numpy as np
import pytest
from hpc.trials.coarse_products import rounded

from thalweg.data import Dataset
from thalweg.engines.secants import SecantSet
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg_isometry import certify
from thalweg_isometry.certificate import lower_bound
from thalweg_isometry.command import main
from thalweg_isometry.map_ranks import extended, guessed_rank, sampled_ratios, truncated
from thalweg_isometry.pair_changes import PairChanges, products_in, scaled
from thalweg_isometry.rank_bounds import alon_bound, rank_lower_bound, weyl_bound

ROWS = 211
QUANTITIES = ("distance", "inner-product", "cosine")


def rows_and_codes(kind):
    """Rows of some kind, and compressed ones."""
    random = np.random.default_rng(5)
    points = random.standard_normal((ROWS, 13))
    if kind == "far":
        points += 1e7
    elif kind == "duplicates":
        points[40:70] = points[3]
        points[9] = 0.0
    elif kind == "scales":
        points *= 10.0 ** random.uniform(-90, 60, (ROWS, 1))
    elif kind == "bytes":
        points = random.integers(0, 256, (ROWS, 13)).astype(np.uint8)
        return points, points // 16, lambda codes: 16.0 * codes + 8.0
    elif kind == "single":
        points = points.astype(np.float32)
        return points, np.sign(points), None
    vectors, noise = points @ random.standard_normal((13, 7)), random.standard_normal((ROWS, 7))
    return points, vectors + (kind == "duplicates") * noise, None  # tells equal rows apart


def changes(points, vectors, quantity, relative):
    """The matrix of all changes, in extended precision."""

    def values(rows):
        rows = rows.astype(np.longdouble)
        if quantity == "distance":
            return ((rows[:, None] - rows) ** 2).sum(axis=2)
        if quantity == "cosine":
            norms = np.sqrt((rows * rows).sum(axis=1))
            rows = rows / np.where(norms > 0, norms, 1)[:, None]
        return rows @ rows.T

    before, after = values(points), values(vectors)
    change = np.abs(after - before)
    if relative:
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.where(change == 0, 0, change / np.abs(before))
    np.fill_diagonal(change, 0)
    return change


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("kind", ["plain", "far", "duplicates", "scales", "bytes", "single"])
@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("relative", [True, False])
def test_a_certificate_holds_the_changes_of_all_pairs(comm, kind, quantity, relative):
    points, codes, decoder = rows_and_codes(kind)
    data = Dataset.from_array(points, comm=comm)
    layout = data.layout
    options = {"quantity": quantity, "relative": relative, "decoder": decoder}
    found = certify(data, layout.local(codes), **options)
    truth = changes(points, codes if decoder is None else decoder(codes), quantity, relative)
    assert found.delta_lower <= truth.max() <= found.delta
    every = np.sort(truth[np.triu_indices(ROWS, 1)])
    printed = re.findall(r"% at most (\S+?)(?:;|$)", str(found))
    for (share, low, high), shown in zip(found.quantiles, printed, strict=True):
        value = every[int(np.ceil(share * len(every))) - 1]
        assert low <= value <= high <= max(1.04 * value, 1e-6) + 1e-9 * found.delta
        assert high <= float(shown)
    worst = truth.max(axis=1)[layout.start : layout.stop]
    assert (found.row_worst[:, 0] <= worst).all()
    assert (worst <= found.row_worst[:, 1]).all()
    if found.pair is not None:
        assert truth[found.pair] >= found.delta_lower
    alone = certify(points, codes, **options)
    assert (alone.delta, alone.delta_lower, alone.pair) == (
        found.delta, found.delta_lower, found.pair,
    )  # fmt: skip
    np.testing.assert_allclose(alone.quantiles, found.quantiles)
    own = layout.local(alone.row_worst)
    np.testing.assert_allclose(own, found.row_worst, rtol=1e-9, atol=1e-14)


def test_a_decoder_may_reuse_its_array_and_write_into_its_codes():
    points = np.random.default_rng(0).standard_normal((5000, 3))
    codes, buffer = points.copy(), np.empty((4096, 3))

    def halved(block):
        block *= 0.5
        buffer[: len(block)] = block
        return buffer[: len(block)]

    found = certify(points, codes, decoder=halved)
    assert found.delta_lower <= 0.75 <= found.delta < 0.7501
    np.testing.assert_array_equal(codes, points)
    for decoder, codes, words in (
        (lambda block: np.ma.masked_less(block, 0.0), points, "decoded rows have masked entries"),
        (lambda block: block[:, : 2 + (len(block) == 4096)], points, "rows of different widths"),
        (halved, None, "codes are an array"),
        (3, points, "a function of a block of codes"),
    ):
        with pytest.raises(InputError, match=words):
            certify(points, codes, decoder=decoder)


def test_the_error_of_a_product_holds_where_both_factors_are_rounded():
    product, error = scaled(np.matmul, 0.0, 2.0**-24)
    factor = np.array([[1.0 + 0.99 * 2.0**-24]])  # which single precision rounds to 1
    assert abs(product(factor, factor) - factor**2) <= error(1) * factor**2


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("kind", ["plain", "far", "scaled"])
@pytest.mark.parametrize("arithmetic", ["float32", "tf32", "bfloat16", 8, 11])
def test_products_of_coarser_arithmetic_certify_too(arithmetic, kind, quantity):
    if not isinstance(arithmetic, int):
        pytest.importorskip("jax")
    points, vectors, _ = rows_and_codes("far" if kind == "far" else "plain")
    if kind == "scaled":  # beyond what single precision holds
        points, vectors = points * 1e-60, vectors * 1e-60
    truth = changes(points, vectors, quantity, True)
    layout = Layout(MPI.COMM_SELF, *points.shape)
    own = rounded(arithmetic) if isinstance(arithmetic, int) else products_in(arithmetic)
    coarse = PairChanges(layout, points, vectors, quantity, products=own)
    fine = certify(points, vectors, quantity=quantity)
    assert (coarse.worst.change, coarse.worst.pair) == (fine.delta, fine.pair)
    assert coarse.worst.least <= truth.max() <= coarse.worst.change
    every = np.sort(truth[np.triu_indices(ROWS, 1)])
    for share in (0.1, 0.5, 0.99):
        low, high = coarse.quantile(share)
        assert low <= every[int(np.ceil(share * len(every))) - 1] <= high
    worst = truth.max(axis=1)
    assert (coarse.row_worst[:, 0] <= worst).all()
    assert (worst <= coarse.row_worst[:, 1]).all()
    named = {} if isinstance(arithmetic, int) else {"arithmetic": arithmetic}
    assert certify(points, vectors, quantity=quantity, **named).delta == fine.delta


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("kind", ["plain", "far", "duplicates", "bytes", "single"])
def test_the_nearest_are_among_the_first_candidates(comm, kind):
    points, codes, decoder = rows_and_codes(kind)
    data = Dataset.from_array(points, comm=comm)
    options = {"quantity": "neighbors", "n_neighbors": 4, "decoder": decoder}
    found = certify(data, data.layout.local(codes), **options)
    codes = codes if decoder is None else decoder(codes)
    before, after = (((r[:, None] - r) ** 2).sum(axis=2) for r in (points.astype(float), codes))
    for table in (before, after):
        np.fill_diagonal(table, np.inf)
    nearest = np.argsort(before, axis=1, kind="stable")[:, :4]
    limits = np.take_along_axis(after, nearest, axis=1)
    counts = (after <= limits.max(axis=1)[:, None]).sum(axis=1)
    (low, high), own = found.row_worst.T, data.layout.local(counts)
    assert ((low <= own) & (own <= high)).all()
    assert ((low == high) | (kind == "duplicates")).all()
    row = counts.argmax()
    assert (found.delta, found.pair) == (counts.max(), (row, nearest[row, limits[row].argmax()]))
    assert {s: n for s, n, _ in found.quantiles}[0.9] == np.sort(counts)[189]


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("seed", range(8))
def test_bounds_hold_where_rounding_hides_which_rows_are_as_near(comm, seed):
    points = np.random.default_rng(seed).integers(0, 30, (40, 3)) / 10
    exact = [(rows * 2.0**60).astype(int).astype(object) for rows in (points, points * 0.1)]
    before, after = (((r[:, None] - r) ** 2).sum(axis=2) for r in exact)
    before[range(40), range(40)] = after[range(40), range(40)] = 2**150
    nearest = np.argsort(before, axis=1, kind="stable")[:, :5]
    limits = np.take_along_axis(after, nearest, axis=1).max(axis=1)
    counts, data = (after <= limits[:, None]).sum(axis=1), Dataset.from_array(points, comm=comm)
    for arithmetic in ("float64", "float32")[: 1 + (importlib.util.find_spec("jax") is not None)]:
        options = {"quantity": "neighbors", "n_neighbors": 5, "arithmetic": arithmetic}
        found = certify(data, data.values * 0.1, **options)
        low, high = found.row_worst.T
        assert (low <= data.layout.local(counts)).all()
        assert (data.layout.local(counts) <= high).all()
        assert found.delta_lower <= counts.max() <= found.delta <= 40


def test_the_command_certifies_compressed_rows(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    points, vectors, _ = rows_and_codes("plain")
    np.save("points.npy", points)
    np.save("vectors.npy", vectors)
    assert main(["points.npy", "vectors.npy", "--quantity", "cosine", "--absolute", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["delta"] == certify(points, vectors, quantity="cosine", relative=False).delta
    assert main(["points.npy", "vectors.npy", "--quantity", "neighbors", "--neighbors", "5"]) == 0
    assert "place of the 5 nearest among candidates at most" in capsys.readouterr().out
    with pytest.raises(InputError, match="give as many compressed rows"):
        main(["points.npy", "vectors.npy", "--rows", "90", "--quantity", "neighbors"])
    with pytest.raises(InputError, match="leave --secants out"):
        main(["points.npy", "vectors.npy", "--secants", "neighbors"])


@pytest.mark.ranks(2)
def test_ranks_may_have_other_types_of_numbers_but_no_other_arguments(comm):
    data = Dataset.from_array(np.eye(9), comm=comm)
    assert certify(data, data.values.astype((float, np.float32)[comm.rank])).delta < 1e-14
    with pytest.raises(InputError, match="arguments of certify differ"):
        certify(data, data.values, relative=comm.rank == 0)


def test_what_cannot_be_certified_is_refused():
    points, vectors, _ = rows_and_codes("plain")
    absolute = {"relative": "absolute"}
    for rows, codes, options, words in (
        (points, points, absolute, "relative must be True or False, not 'absolute'"),
        (points, vectors, {"quantity": "angle"}, "no quantity is named 'angle'"),
        (points, vectors, {"arithmetic": "half"}, "no arithmetic is named 'half'"),
        (points, vectors[1:], {}, "210 compressed rows for 211 rows"),
        (points, np.where(vectors > 2, np.nan, vectors), {}, "not finite"),
        (points, vectors * 1e-110, {}, "below 1e-100; scale"),
        (points[:1], vectors[:1], {}, "fewer than two rows"),
    ):
        with pytest.raises(InputError, match=words):
            certify(rows, codes, **options)


def squared_distances(points):
    return ((points[:, None] - points) ** 2).sum(axis=2)


def scaled_delta(points, psi):
    """Delta of the best multiple of psi, and that multiple's ratios."""
    upper = np.triu_indices(len(points), 1)
    ratios = squared_distances(points @ psi.T)[upper] / squared_distances(points)[upper]
    return (ratios.max() - ratios.min()) / (ratios.max() + ratios.min())


@pytest.mark.parametrize("seed", range(60))
def test_no_linear_map_has_a_rank_below_the_bound_for_its_delta(seed):
    random = np.random.default_rng(seed)
    n, dimension = int(random.integers(3, 40)), int(random.integers(2, 30))
    points = random.standard_normal((n, dimension)) * random.uniform(0.1, 3, dimension)
    rank = int(random.integers(1, dimension + 1))
    _, _, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    for psi in (directions[:rank], random.standard_normal((rank, dimension))):
        assert rank_lower_bound(points, scaled_delta(points, psi)) <= min(rank, dimension)


def test_perturbed_distances_of_any_embedding_respect_each_bound():
    random = np.random.default_rng(1)
    for rank, delta in itertools.product((1, 2, 4), (0.05, 0.2, 0.5)):
        images = random.standard_normal((12, rank))
        # Nonlinear: any distances within the bounds may be the originals.
        change = random.uniform(-delta, delta, (12, 12))
        change = np.triu(change, 1) + np.triu(change, 1).T
        originals = squared_distances(images) / (1.0 + change)
        assert weyl_bound(originals, delta) <= rank
        assert np.ceil(alon_bound(originals, delta) - 1e-9) <= rank


def test_the_worst_case_of_alons_bound_is_no_larger_than_a_search_finds():
    random = np.random.default_rng(2)
    distances = squared_distances(random.standard_normal((7, 7)))
    delta, k = 0.3, 7
    centring = np.eye(k) - 1.0 / k
    least = np.inf
    for _ in range(4000):
        signs = np.sign(random.standard_normal((k, k)) + random.normal())
        signs = np.triu(signs, 1) + np.triu(signs, 1).T
        gram = -0.5 * centring @ (distances * (1 + delta * signs)) @ centring
        least = min(least, np.trace(gram) ** 2 / (gram**2).sum())
    assert alon_bound(distances, delta) <= least


def test_equidistant_points_come_near_one_over_delta_squared():
    points = np.eye(2000)[:, :2000]
    assert 85 < alon_bound(2.0 * (1.0 - np.eye(2000)), 0.1) <= 99.0
    assert rank_lower_bound(points[:60, :60], 0.1) > 20


def test_delta_of_one_needs_no_rank_at_all():
    assert (rank_lower_bound(np.eye(4), 1.0), rank_lower_bound(np.ones((4, 2)), 0.1)) == (0, 0)
    pairs = np.stack([np.arange(29), np.arange(1, 30)], axis=1)
    layout = Layout(MPI.COMM_SELF, 30, 6)
    points = np.random.default_rng(0).normal(size=(30, 6))
    points[1], weights = points[0], np.r_[1.0, np.full(28, 0.5)]  # of coincident points, 1
    halves = SecantSet(points, layout, pairs=pairs, weights=weights)
    assert (certify(halves, np.zeros((1, 6))).rank_lower_bound, lower_bound(halves, 0.4)) == (0, 1)


def test_a_truncated_map_is_the_nearest_of_its_rank_and_an_extended_one_keeps_its_rows():
    psi = np.random.default_rng(0).standard_normal((4, 9))
    values = np.linalg.svd(psi, compute_uv=False)
    low = truncated(psi, 2)
    missing = np.linalg.eigvalsh(psi.T @ psi - low.T @ low)
    np.testing.assert_allclose(missing[-2:][::-1], values[2:] ** 2, rtol=1e-10)
    more = extended(psi, 7, np.eye(9), seed=0)
    np.testing.assert_array_equal(more[:4], psi)
    assert np.linalg.matrix_rank(more) == 7
    # It can have more rows than there are directions.
    assert extended(psi[:1], 6, np.eye(9)[:2], seed=0).shape == (6, 9)


def test_a_tighter_delta_asks_for_a_higher_rank(digits, secants_of):
    secants = secants_of(digits, MPI.COMM_SELF)
    ranks = [guessed_rank(secants, delta, "bracket") for delta in (0.8, 0.4, 0.1)]
    assert ranks == sorted(ranks)
    assert 1 <= ranks[0] < ranks[-1] <= digits.shape[1]
    np.testing.assert_allclose(sampled_ratios(digits[:50], np.eye(digits.shape[1])), 1.0)
