"""Matrix-free operators behave as matrices in KSP, in TAO and in Lanczos methods."""

import sys

import numpy as np
import pytest

from thalweg.engines.hessian.operators import hessian_operator, remove_shift
from thalweg.parallel import Layout, array_of, vec_over


def layouts(comm):
    yield Layout(comm, 7, 2)
    yield Layout(comm, 1, 3)  # fewer rows than ranks
    yield Layout(comm, 7, 2, local_rows={1: [7], 2: [0, 7], 3: [4, 0, 3]}[comm.size][comm.rank])


def spread(layout):
    """Positive diagonal, row by row."""
    whole = 1.0 + np.arange(layout.rows * layout.columns).reshape(layout.rows, layout.columns)
    return layout.local(whole)


class Quartic:
    """sum c x^4 / 12, whose Hessian is the diagonal c x^2."""

    def __init__(self, layout):
        self.layout = layout

    def hessian_product(self, x, direction):
        return spread(self.layout) * x**2 * direction

    def hessian_diagonal(self, x):
        return spread(self.layout) * x**2


def zeros(layout):
    """A vector of zeros that PETSc has allocated."""
    return vec_over(layout, np.zeros(layout.shape))


@pytest.mark.ranks(1, 2, 3)
def test_products_and_diagonal_follow_the_point(comm):
    for layout in layouts(comm):
        x, direction = layout.random_normal(0), layout.random_normal(1)
        given, result = vec_over(layout, direction), zeros(layout)
        matrix = hessian_operator(Quartic(layout), x)
        assert matrix.getType() == "python"
        for _ in range(2):
            matrix.mult(given, result)
            expected = spread(layout) * x**2 * direction
            assert np.array_equal(array_of(layout, result), expected)
            matrix.multTranspose(given, result)
            assert np.array_equal(array_of(layout, result), expected)
            matrix.getDiagonal(result)
            assert np.allclose(array_of(layout, result), spread(layout) * x**2)
            x *= 2.0
        matrix.destroy()


@pytest.mark.ranks(1, 2)
def test_a_shift_adds_to_products_and_diagonal_until_it_is_taken_off(comm):
    layout = Layout(comm, 5, 2)
    x, result = layout.random_normal(0), zeros(layout)
    given = vec_over(layout, x)
    matrix = hessian_operator(Quartic(layout), x)
    square = spread(layout) * x**2
    for shift in (0.0, 2.0, 3.0):
        matrix.shift(shift)
    matrix.mult(given, result)
    assert np.allclose(array_of(layout, result), (square + 5.0) * x)
    matrix.getDiagonal(result)
    assert np.allclose(array_of(layout, result), square + 5.0)
    remove_shift(matrix)
    matrix.mult(given, result)
    assert np.array_equal(array_of(layout, result), square * x)
    matrix.destroy()


#: A finished script whose matrices, and what refers to them, are left to PETSc.
LEFT = """
import numpy as np
from thalweg.parallel import MPI, Layout, PETSc, vec_over
from thalweg.engines.hessian import matrix_free
layout = Layout(MPI.COMM_WORLD, 6, 2)
x, y = layout.random_normal(0), np.zeros(layout.shape)
matrix = matrix_free(layout, np.copy)
matrix.mult(vec_over(layout, x), vec_over(layout, y))
matrix = matrix_free(layout, np.copy)
inner = matrix_free(layout, np.copy)
solver = PETSc.KSP().create(layout.comm)
solver.setOperators(inner)
inner.destroy()
print("finished")
"""


def test_a_script_that_destroys_nothing_ends_well(mpirun):
    ended = mpirun(2, [sys.executable, "-c", LEFT])
    assert ended.returncode == 0, ended.stderr
