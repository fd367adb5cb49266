"""PETSc, started where something asks for it, and its options in a configuration."""

import sys

import numpy as np
import pytest
from mpi4py import MPI

import thalweg
from thalweg.errors import InputError
from thalweg.parallel import Layout, PETSc, array_of, fill_vec, vec_over
from thalweg.workbench.run.single_run import command_line_options

ON_RANK_0 = """
import numpy as np
from mpi4py import MPI
from thalweg_embedding import LaplacianEigenmaps

comm, images = MPI.COMM_WORLD, np.random.default_rng(0).normal(size=(60, 5))
if comm.rank == 0:
    from thalweg.parallel import PETSc, Layout, vec_over

    assert vec_over(Layout(MPI.COMM_SELF, 3), np.zeros((3, 1))).norm() == 0.0
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


def test_petsc_shares_an_array_and_hands_out_copies():
    layout, array = Layout(MPI.COMM_SELF, 4, 2), np.zeros((4, 2))
    vec = vec_over(layout, array)
    assert vec.norm() == 0.0  # PETSc remembers it
    fill_vec(vec, np.ones((4, 2)))
    assert (array == 1.0).all()
    assert vec.norm() == 8.0**0.5
    found = array_of(layout, vec)
    found[...] = 3.0
    assert (array == 1.0).all()
    vec.destroy()


def test_options_of_a_configuration_last_as_long_as_the_run():
    options = PETSc.Options()
    options.setValue("mine", "kept")
    with command_line_options("-thalweg_x 3 -mine other -flag -low -1.5 -text 'two words'"):
        assert (options.getInt("thalweg_x"), options.getString("mine")) == (3, "kept")
        assert options.hasName("flag")
        assert (options.getReal("low"), options.getString("text")) == (-1.5, "two words")
    assert not any(map(options.hasName, ("thalweg_x", "flag", "low", "text")))
    options.delValue("mine")
    for wrong in ("gamg", "-a b c", "-a 'b"):
        with pytest.raises(InputError, match="PETSc options"), command_line_options(wrong):
            pass


def test_options_that_nothing_used_are_named():
    text = "-tao_ls_type unit -thalweg_laplacian_ksp_type cg -thalweg_laplacian_ksp_tpye cg"
    result = thalweg.run(
        {
            "data": {"name": "digits", "rows": 60},
            "objective": {"name": "elastic-embedding", "perplexity": 5},
            "preconditioner": {"name": "spectral", "method": "petsc", "neighbors": 7},
            "stop": {"iterations": 1},
            "run": {"petsc": text},
        }
    )
    unused = "nothing used: -tao_ls_type, -thalweg_laplacian_ksp_tpye"
    assert next(note for note in result.notes if "nothing used" in note).endswith(unused)
