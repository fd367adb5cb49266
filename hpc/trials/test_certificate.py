"""Certificates against extended precision, pair by pair.

Sets made to mislead the bounds (points nearly inside the leading directions with others
far outside, outliers, offsets, near-duplicates, sparse binary rows, low rank with tiny
noise, extreme units) and maps made to be worst where the bounds are weakest.  At every
number of leading coordinates the certified interval must hold the true constant.
"""

import numpy as np
import pytest
from hpc.trials.coarse_products import rounded

from thalweg.engines.secants.secants import SecantSet
from thalweg.errors import InputError
from thalweg.parallel import Layout
from thalweg_isometry import certify
from thalweg_isometry.pair_changes import PairChanges

SETS_PER_FAMILY = 60


def inside(random, n, d):
    """Nearly all points in the span of some axes; a few with a small part outside."""
    p = d // 3 + 1
    points = np.zeros((n, d))
    points[:, :p] = random.standard_normal((n, p))
    few = random.permutation(n)[: n // 4]
    points[few, 1:p] *= 0.01
    points[few, p:] = 10.0 ** random.uniform(-6, -2) * random.standard_normal((len(few), d - p))
    points[few, 0] = np.sign(points[few, 0]) * (1 + 1e-6 * random.random(len(few)))
    return points


def outliers(random, n, d):
    """A few points 1e4 times as far as the others."""
    points = random.standard_normal((n, d))
    points[random.permutation(n)[: max(1, n // 12)]] *= 1e4
    return points


def offset(random, n, d):
    """Far from the origin."""
    return random.standard_normal((n, d)) * np.linspace(1, 0.01, d) + 1e6


def duplicates(random, n, d):
    """Pairs of points almost at, or exactly at, the same place."""
    points = random.standard_normal((n, d))
    half = n // 2
    gap = 10.0 ** random.uniform(-14, -3, (half, 1)) * random.standard_normal((half, d))
    points[half : 2 * half] = points[:half] + gap
    points[0] = points[1]
    return points


def binary(random, n, d):
    """Sparse rows of zeros and ones, stored as bytes."""
    points = (random.random((n, d)) < 3.0 / d).astype(np.uint8)
    points[0, 0] ^= 1
    points[1] = 1 - points[0]
    return points


def low_rank(random, n, d):
    """A few dimensions, and noise around the rounding of single precision."""
    rank = min(3, d)
    points = random.standard_normal((n, rank)) @ random.standard_normal((rank, d))
    return points + 10.0 ** random.uniform(-9, -5) * random.standard_normal((n, d))


def images(random, n, d):
    """Bytes with a decaying spectrum."""
    smooth = np.cumsum(random.standard_normal((n, d)), axis=1)
    return np.clip(128 + 40 * smooth, 0, 255).astype(np.uint8)


def single(random, n, d):
    """Numbers in single precision with a decaying spectrum."""
    return (random.standard_normal((n, d)) * np.exp(-np.arange(d) / 3.0)).astype(np.float32)


def units(random, n, d):
    """In a unit in which squares would overflow or vanish; differences that vanish squared."""
    points = random.standard_normal((n, d)) * np.exp(-np.arange(d) / 2.0)
    points[1] = points[0]
    points[1, 0] += 1e-16 * points[0, 0]
    points[2] = 0.0
    points[3] = 0.0
    points[3, -1] = 1e-170
    points[3] *= 1.0
    return points * 2.0 ** random.integers(-300, 300)


FAMILIES = (inside, outliers, offset, duplicates, binary, low_rank, images, single, units)


def maps(random, points):
    """A random map, leading directions, and one that is worst on a chosen pair."""
    n, d = points.shape
    centered = points - points.mean(axis=0, dtype=float)
    centered = centered / max(float(np.abs(centered).max()), 1e-300)
    rank = int(random.integers(1, d + 1))
    yield random.standard_normal((rank, d)) / np.sqrt(rank)
    _, _, directions = np.linalg.svd(centered, full_matrices=False)
    yield directions[:rank] * random.choice([1e-3, 0.9, 1.1, 30.0])
    i, j = random.permutation(n)[:2]
    direction = centered[i] - centered[j]
    norm = np.linalg.norm(direction)
    if norm > 0:
        direction = direction / norm
        yield np.eye(d) + (np.sqrt(1.5) - 1) * np.outer(direction, direction)


def true_constant(points, components):
    """Largest distortion in extended precision, from the differences."""
    i, j = np.triu_indices(len(points), 1)
    wide = points.astype(np.longdouble)
    difference = wide[i] - wide[j]
    largest = np.abs(difference).max(axis=1)
    difference = difference[largest > 0] / largest[largest > 0][:, None]
    image = difference @ components.T.astype(np.longdouble)
    ratio = (image * image).sum(axis=1) / (difference * difference).sum(axis=1)
    return np.abs(ratio - 1).max(), int((largest == 0).sum())


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_the_interval_holds_the_true_constant(comm, trial, family):
    count = SETS_PER_FAMILY * (2 if comm.size == 1 else 1)
    judged = 0
    for seed in range(count):
        random = np.random.default_rng((seed, FAMILIES.index(family)))
        n, d = int(random.integers(16, 60)), int(random.integers(3, 16))
        points = family(random, n, d)
        layout = Layout(comm, n, d)
        secants = SecantSet(layout.local(points).copy(), layout)
        for components in maps(random, points):
            truth, coincident = true_constant(points, components)
            found = secants.scan(components)
            assert found.n_coincident == coincident
            for n_leading in range(d + 1):
                scan = secants.scan(components, max_pairs=1, n_leading=n_leading)
                where = f"{family.__name__}, seed {seed}, {n_leading} leading coordinates"
                assert scan.delta_lower <= truth <= scan.delta, where
                assert (scan.delta, scan.pair) == (found.delta, found.pair), where
                norm = max(1.0, float(np.linalg.norm(components)))
                assert scan.delta - scan.delta_lower <= 1e-7 * norm**2, where
        certificate = certify(secants, components)
        assert (certificate.delta_lower, certificate.delta) == (scan.delta_lower, scan.delta)
        judged += 1
    trial.cases(judged)


def true_changes(points, vectors):
    """Relative changes of squared distances in extended precision, of pairs that are apart."""
    i, j = np.triu_indices(len(points), 1)
    before, after = (
        ((rows.astype(np.longdouble)[i] - rows.astype(np.longdouble)[j]) ** 2).sum(axis=1)
        for rows in (points, vectors)
    )
    apart = before > 0
    return np.abs(after[apart] / before[apart] - 1)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("bits", [8, 11], ids=["bfloat16", "tf32"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_coarse_products_certify_the_true_change(comm, trial, family, bits):
    """The products of these formats, emulated; sets in units that are refused are left out."""
    judged = 0
    for seed in range(SETS_PER_FAMILY * (2 if comm.size == 1 else 1)):
        random = np.random.default_rng((seed, FAMILIES.index(family)))
        n, d = int(random.integers(16, 60)), int(random.integers(3, 16))
        points = family(random, n, d)
        layout = Layout(comm, n, d)
        for components in maps(random, points):
            vectors = points.astype(float) @ components.T
            try:
                found = PairChanges(
                    layout, layout.local(points), layout.local(vectors), products=rounded(bits)
                )
            except InputError:
                continue
            truth = true_changes(points, vectors).max()
            where = f"{family.__name__}, seed {seed}, {bits} bits"
            assert found.worst.least <= truth <= found.worst.change, where
        judged += 1
    trial.cases(judged)
