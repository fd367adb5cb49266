"""Options of PETSc in a configuration."""

import pytest

import thalweg
from thalweg.errors import InputError
from thalweg.parallel import PETSc
from thalweg.workbench.run.single_run import command_line_options


def test_options_of_a_configuration_last_as_long_as_the_run():
    options = PETSc.Options()
    options.setValue("mine", "kept")
    with command_line_options("-thalweg_x 3 -mine other -flag -low -1.5 -text 'two words'"):
        assert options.getInt("thalweg_x") == 3
        assert options.getString("mine") == "kept"  # the command line's
        assert options.hasName("flag")
        assert options.getReal("low") == -1.5
        assert options.getString("text") == "two words"
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
