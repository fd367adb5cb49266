"""Blocks of rows turn to blocks of columns and back."""

import numpy as np
import pytest

from thalweg.parallel import Layout
from thalweg.parallel.traffic import phases
from thalweg_embedding.pairs.transposition import Transposition


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("shape", [(7, 5), (2, 9), (9, 2), (6, 3, 8), (0, 4), (1, 1)])
def test_blocks_of_rows_turn_to_blocks_of_columns_and_back(comm, shape):
    whole = np.random.default_rng(0).random(shape).astype(np.complex64)
    turned = Transposition(comm, shape[0], shape[-1], (0, len(shape) - 1))
    rows, columns = Layout(comm, shape[0]), Layout(comm, shape[-1])
    block, part = rows.local(whole), whole[..., columns.start : columns.stop]
    before = phases()["other"].bytes
    np.testing.assert_array_equal(turned.to_columns(block), part)
    sent = phases()["other"].bytes - before
    assert sent <= block.nbytes
    np.testing.assert_array_equal(turned.to_rows(part), block)
