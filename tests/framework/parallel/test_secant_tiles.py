"""Tiles meet every pair of points once, on one grid whatever the blocks."""

import numpy as np
import pytest

from thalweg.parallel.pairs.secant_tiles import TILE, Block, TileChoice, tiles_of


def block(start, stop):
    return Block(start, (np.empty((stop - start, 1)),), np.empty(0))


@pytest.mark.parametrize("cut", [0, 1, TILE, TILE + 300, 2 * TILE + 77])
def test_two_blocks_and_their_own_pairs_are_all_pairs(cut):
    n = 2 * TILE + 77
    low, high = block(0, cut), block(cut, n)
    everything = TileChoice(1.0, 0, n)
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
    chosen = TileChoice(0.3, 5, n)
    whole = {
        (r // TILE, c // TILE) for r, _, c, _ in tiles_of(block(0, n), block(0, n), chosen, True)
    }
    low, high = block(0, cut), block(cut, n)
    parts = set()
    for first, second, same in ((low, low, True), (low, high, False), (high, high, True)):
        for r0, _, c0, _ in tiles_of(first, second, chosen, same):
            parts.add((r0 // TILE, c0 // TILE))
    assert parts == whole
    assert len(whole) == int(np.ceil(0.3 * 21))
