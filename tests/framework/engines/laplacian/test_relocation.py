"""Matrices distributed by rows multiply, wherever the rows are brought."""

import numpy as np
import pytest
import scipy.sparse

from thalweg.engines.laplacian import Relocation, RowMatrix
from thalweg.parallel import Layout


@pytest.mark.ranks(1, 2, 3)
def test_a_matrix_of_rows_multiplies_what_is_distributed_like_them(comm):
    uneven = {1: [17], 2: [0, 17], 3: [12, 0, 5]}[comm.size][comm.rank]
    for layout in (Layout(comm, 17), Layout(comm, 1), Layout(comm, 17, local_rows=uneven)):
        rng = np.random.default_rng(3)
        whole_matrix = np.where(rng.random((layout.rows,) * 2) < 0.3, rng.random(layout.rows), 0.0)
        array = rng.random((layout.rows, 3))
        rows = layout.local(whole_matrix)
        for kind in (rows, scipy.sparse.csr_matrix(rows)):
            matrix = RowMatrix(layout, kind)
            product = matrix.multiply(layout.local(array))
            assert np.allclose(product, layout.local(whole_matrix @ array), rtol=1e-13)


@pytest.mark.ranks(1, 2, 3)
def test_a_relocated_matrix_has_the_entries_and_products_of_the_whole(comm):
    whole = scipy.sparse.random(40, 40, 0.2, random_state=0, format="csr")
    layout = Layout(comm, 40, 2)
    places = Relocation(
        layout, np.random.default_rng(comm.rank).integers(0, comm.size, layout.local_rows)
    )
    names = places.forward(np.arange(layout.start, layout.stop))
    numbers = places.new_numbers(np.arange(40))
    assert sorted(numbers) == list(range(40))
    np.testing.assert_array_equal(places.original_numbers(numbers), np.arange(40))
    back = np.argsort(numbers)
    there = whole[names][:, back].tocsr()  # rows and columns as placed
    mine = slice(layout.start, layout.stop)
    np.testing.assert_array_equal(places.backward_matrix(there).toarray(), whole[mine].toarray())
    block = layout.random_normal(0)
    expected = whole[mine] @ layout.gather_rows(block)
    for kind in (there, there.toarray()):
        matrix = RowMatrix(layout, kind, places)
        np.testing.assert_allclose(matrix.multiply(block), expected, atol=1e-12)
