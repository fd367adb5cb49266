"""Options of PETSc in a configuration."""

import pytest

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
