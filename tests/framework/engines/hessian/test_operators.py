"""Matrix-free operators behave as matrices in KSP, in TAO and in Lanczos methods."""

import subprocess
import sys
import weakref

import numpy as np
import pytest

from thalweg.engines.hessian.operators import hessian_operator, matrix_free, remove_shift
from thalweg.parallel import Layout, PETSc, vec_over, vector_on


def layouts(comm):
    yield Layout(comm, 7, 2)
    yield Layout(comm, 1, 3)  # fewer rows than ranks
    counts = {1: [7], 2: [0, 7], 3: [4, 0, 3]}[comm.size]
    yield Layout(comm, 7, 2, local_rows=counts[comm.rank])


def spread(layout):
    """Positive diagonal, row by row."""
    whole = 1.0 + np.arange(layout.rows * layout.columns).reshape(layout.rows, layout.columns)
    return layout.local(whole)


class Quartic:
    """sum c x^4 / 12, whose Hessian is the diagonal c x^2."""

    def __init__(self, layout):
        self.layout = layout

    def hessian_product(self, x, direction, product):
        point, along = self.layout.reading(x), self.layout.reading(direction)
        with self.layout.writing(product) as rows:
            rows[...] = spread(self.layout) * point**2 * along

    def hessian_diagonal(self, x, diagonal):
        with self.layout.writing(diagonal) as rows:
            rows[...] = spread(self.layout) * self.layout.reading(x) ** 2


def laplacian_product(layout):
    """Tridiagonal [-1, 3, -1] over the rows, for each column."""

    def product(direction, result):
        whole = layout.gather(direction)
        out = 3.0 * whole
        out[1:] -= whole[:-1]
        out[:-1] -= whole[1:]
        with layout.writing(result) as rows:
            rows[...] = layout.local(out)

    return product


@pytest.mark.ranks(1, 2, 3)
def test_products_and_diagonal_follow_the_point(comm):
    for layout in layouts(comm):
        x = layout.vec_from(layout.random_normal(0))
        direction = layout.vec_from(layout.random_normal(1))
        result = layout.create_vec()
        matrix = hessian_operator(Quartic(layout), x)
        assert matrix.getType() == "python"
        for _ in range(2):
            matrix.mult(vec_over(direction), vec_over(result))
            expected = spread(layout) * layout.reading(x) ** 2 * layout.reading(direction)
            assert np.array_equal(layout.reading(result), expected)
            matrix.multTranspose(vec_over(direction), vec_over(result))
            assert np.array_equal(layout.reading(result), expected)
            matrix.getDiagonal(vec_over(result))
            assert np.allclose(layout.reading(result), spread(layout) * layout.reading(x) ** 2)
            x.scale(2.0)
        matrix.destroy()


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("krylov", ["cg", "minres", "gmres"])
def test_krylov_methods_solve_with_an_operator(comm, krylov):
    for layout in layouts(comm):
        matrix = matrix_free(layout, laplacian_product(layout))
        rhs = layout.vec_from(layout.random_normal(2))
        solution, back = layout.create_vec(), layout.create_vec()
        ksp = PETSc.KSP().create(comm)
        ksp.setType(krylov)
        ksp.getPC().setType("none")
        ksp.setOperators(matrix)
        ksp.setTolerances(rtol=1e-12)
        ksp.solve(vec_over(rhs), vec_over(solution))
        assert ksp.getConvergedReason() > 0
        matrix.mult(vec_over(solution), vec_over(back))
        back.axpy(-1.0, rhs)
        assert back.norm() < 1e-10
        ksp.destroy()
        matrix.destroy()


@pytest.mark.ranks(1, 2)
def test_tao_takes_an_operator_as_its_hessian(comm):
    layout = Layout(comm, 7, 2)
    product = laplacian_product(layout)
    rhs = layout.vec_from(layout.random_normal(3))
    x, work = layout.create_vec(), layout.create_vec()
    matrix = matrix_free(layout, product)

    def value_and_gradient(tao, at, to_fill):
        with vector_on(layout, at) as point, vector_on(layout, to_fill, write=True) as gradient:
            product(point, gradient)
            value = 0.5 * gradient.dot(point) - rhs.dot(point)
            gradient.axpy(-1.0, rhs)
            return value

    tao = PETSc.TAO().create(comm)
    tao.setType("nls")
    tao.setObjectiveGradient(value_and_gradient, None)
    tao.setHessian(lambda *ignored: None, matrix)
    tao.getKSP().getPC().setType("none")
    tao.setTolerances(gatol=1e-9)
    tao.solve(vec_over(x))
    product(x, work)
    work.axpy(-1.0, rhs)
    assert work.norm() < 1e-8
    tao.destroy()
    matrix.destroy()


@pytest.mark.ranks(1, 2)
def test_extreme_eigenvalues_come_from_products_alone(comm):
    layout = Layout(comm, 7, 1)
    matrix = matrix_free(layout, laplacian_product(layout))
    ksp = PETSc.KSP().create(comm)
    ksp.setType("cg")
    ksp.getPC().setType("none")
    ksp.setOperators(matrix)
    ksp.setComputeEigenvalues(True)
    ksp.setTolerances(rtol=1e-14)
    rhs = layout.vec_from(layout.random_normal(4))
    solution = layout.create_vec()
    ksp.solve(vec_over(rhs), vec_over(solution))
    found = np.sort(ksp.computeEigenvalues().real)
    expected = np.sort(3.0 - 2.0 * np.cos(np.pi * np.arange(1, 8) / 8))
    assert np.allclose(found[[0, -1]], expected[[0, -1]], rtol=1e-6)
    ksp.destroy()
    matrix.destroy()


def test_an_operator_without_a_diagonal_says_so(comm):
    layout = Layout(comm, 3)
    matrix = matrix_free(layout, laplacian_product(layout))
    result = layout.create_vec()
    with pytest.raises((PETSc.Error, NotImplementedError)):
        matrix.getDiagonal(vec_over(result))
    matrix.destroy()


@pytest.mark.ranks(1, 2)
def test_a_shift_adds_to_products_and_diagonal_until_it_is_taken_off(comm):
    layout = Layout(comm, 5, 2)
    x, result = layout.vec_from(layout.random_normal(0)), layout.create_vec()
    matrix = hessian_operator(Quartic(layout), x)
    square = spread(layout) * layout.reading(x) ** 2
    for shift in (0.0, 2.0, 3.0):
        matrix.shift(shift)
    matrix.mult(vec_over(x), vec_over(result))
    assert np.allclose(layout.reading(result), (square + 5.0) * layout.reading(x))
    matrix.getDiagonal(vec_over(result))
    assert np.allclose(layout.reading(result), square + 5.0)
    remove_shift(matrix)
    matrix.mult(vec_over(x), vec_over(result))
    assert np.array_equal(layout.reading(result), square * layout.reading(x))
    matrix.destroy()


#: A finished script whose matrix, and what refers to it, is left to PETSc.
LEFT = """
from thalweg.parallel import MPI, Layout, PETSc, Vector, vec_over
from thalweg.engines.hessian import matrix_free
layout = Layout(MPI.COMM_WORLD, 6, 2)
x, y = layout.vec_from(layout.random_normal(0)), layout.create_vec()
matrix = matrix_free(layout, Vector.copy)
matrix.mult(vec_over(x), vec_over(y))
{more}
print("finished")
"""
IN_A_SOLVER = """
solver = PETSc.KSP().create(layout.comm)
solver.setOperators(matrix)
"""


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(
    "more", ["", "matrix = matrix_free(layout, Vector.copy)", IN_A_SOLVER + "matrix.destroy()"]
)
def test_a_script_that_destroys_nothing_ends_well(mpirun, ranks, more):
    command = [sys.executable, "-c", LEFT.format(more=more)]
    ended = mpirun(ranks, command) if ranks > 1 else subprocess.run(command, capture_output=True)
    assert ended.returncode == 0, ended.stderr


def test_a_destroyed_operator_frees_what_it_refers_to(comm):
    layout = Layout(comm, 6, 2)
    product = laplacian_product(layout)
    freed = weakref.ref(product)
    matrix = matrix_free(layout, product)
    del product
    matrix.destroy()
    assert freed() is None
