"""PETSc, started where something asks for it."""

from __future__ import annotations

import contextlib
import sys

from mpi4py import MPI

from thalweg.parallel import Layout, vec_over, vector_on

ON_RANK_0 = """
import numpy as np
from mpi4py import MPI
from thalweg_embedding import LaplacianEigenmaps

comm, images = MPI.COMM_WORLD, np.random.default_rng(0).normal(size=(60, 5))
if comm.rank == 0:
    from thalweg.parallel import PETSc, Layout, vec_over

    assert vec_over(Layout(MPI.COMM_SELF, 3).create_vec()).norm() == 0.0
    assert PETSc.COMM_WORLD.size == 2
    assert PETSc.Options().hasName("no_signal_handler")
comm.Barrier()
if comm.rank == 1:
    LaplacianEigenmaps(eigen_solver=%r).fit(images)
    from thalweg.parallel import PETSc

    assert PETSc.Options().hasName("no_signal_handler")
comm.Barrier()
print("ended")
"""


def test_some_ranks_may_use_petsc_without_the_others(mpirun):
    try:
        import slepc4py  # noqa: F401  # which starts PETSc in its own way where it comes first

        solver = "slepc"
    except ImportError:
        solver = "arpack"
    done = mpirun(2, [sys.executable, "-c", ON_RANK_0 % solver], seconds=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ended") == 2


def test_petsc_sees_what_was_written_before_an_error():
    layout = Layout(MPI.COMM_SELF, 4)
    vec = vec_over(layout.create_vec())
    assert vec.norm() == 0.0  # PETSc remembers it
    with contextlib.suppress(KeyError), vector_on(layout, vec, write=True) as vector:
        vector.set(1.0)
        raise KeyError
    assert vec.norm() == 2.0
    vec.destroy()
