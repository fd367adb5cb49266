"""Tiles meet every pair of points once, on one grid whatever the blocks."""

from dataclasses import replace

import numpy as np
import pytest

from thalweg.engines.secants.scan import ScanOptions
from thalweg.engines.secants.secant_tiles import TILE, Block, TileChoice, tiles_of


def block(start, stop):
    return Block(start, (np.empty((stop - start, 1)),), np.empty(0))


@pytest.mark.parametrize("cut", [0, 1, TILE, TILE + 300, 2 * TILE + 77])
def test_two_blocks_and_their_own_pairs_are_all_pairs(cut):
    n = 2 * TILE + 77
    low, high = block(0, cut), block(cut, n)
    everything = TileChoice(ScanOptions(), n)
    pairs = 0
    for first, second, same in ((low, low, True), (low, high, False), (high, high, True)):
        for r0, r1, c0, c1 in tiles_of(first, second, everything, same):
            assert r1 - r0 <= TILE
            assert c1 - c0 <= TILE
            assert r0 // TILE == (r1 - 1) // TILE
            m = r1 - r0
            pairs += m * (m - 1) // 2 if same and r0 == c0 else m * (c1 - c0)
    assert pairs == n * (n - 1) // 2


def test_a_sample_of_the_tiles_does_not_depend_on_the_blocks():
    n, cut = 6 * TILE, 2 * TILE + 100
    chosen = TileChoice(ScanOptions(fraction=0.3, seed=5), n)
    whole = {
        (r // TILE, c // TILE) for r, _, c, _ in tiles_of(block(0, n), block(0, n), chosen, True)
    }
    low, high = block(0, cut), block(cut, n)
    parts = set()
    for first, second, same in ((low, low, True), (low, high, False), (high, high, True)):
        for r0, _, c0, _ in tiles_of(first, second, chosen, same):
            parts.add((r0 // TILE, c0 // TILE))
    assert parts == whole
    assert 1 <= len(whole) <= 20


def test_a_sample_is_the_wanted_share_whatever_the_number_of_points():
    chosen = TileChoice(ScanOptions(fraction=0.25, seed=7), 10**9 * TILE)
    cells = [(r, c) for r in range(0, 10**9, 10**7) for c in range(r, r + 200)]
    share = np.mean([chosen(r * TILE, c * TILE) for r, c in cells])
    assert share == pytest.approx(0.25, abs=0.02)
    other = TileChoice(ScanOptions(fraction=0.25, seed=8), 10**9 * TILE)
    both = np.mean([chosen(r * TILE, c * TILE) and other(r * TILE, c * TILE) for r, c in cells])
    assert both == pytest.approx(0.25**2, abs=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_the_smallest_sample_has_a_tile(seed):
    chosen = TileChoice(ScanOptions(fraction=1e-9, seed=seed), 5 * TILE)
    assert sum(chosen(r * TILE, c * TILE) for r in range(5) for c in range(r, 5)) == 1


@pytest.mark.parametrize("fraction", [0.5, 1.0])
@pytest.mark.parametrize("first", [0, 2, 9])
def test_each_chosen_tile_is_in_one_part_wherever_these_begin(fraction, first):
    options = ScanOptions(fraction=fraction, seed=3, first=first)
    whole = TileChoice(options, 8 * TILE)
    parts = [TileChoice(replace(options, part=(k, 4)), 8 * TILE) for k in range(4)]
    for r in range(8):
        for c in range(r, 8):
            cell = r * TILE, c * TILE
            assert sum(part(*cell) for part in parts) == whole(*cell)
