"""What a phase sends and takes is counted for the innermost phase, and for no other."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from thalweg.cli.main import main
from thalweg.errors import InputError
from thalweg.job.profile import profile, profile_table
from thalweg.parallel import Layout, PETSc, command_line_options, phase, phases, sum_over_ranks


@pytest.mark.ranks(1, 2, 3)
def test_messages_and_seconds_count_for_the_innermost_phase(comm):
    layout = Layout(comm, 30, 2)
    before = phases()
    with phase("outside"):
        layout.gather_rows(np.zeros((layout.local_rows, 2)))
        with phase("inside"):
            time.sleep(0.02)
            sum_over_ranks(comm, np.zeros(5))
    ranks = profile(comm, before)
    assert len(ranks) == comm.size
    for rank, entry in enumerate(ranks):
        outside, inside = entry["phases"]["outside"], entry["phases"]["inside"]
        several = comm.size > 1
        assert inside["bytes"] == 40 * several
        assert inside["messages"] == several
        assert outside["messages"] == comm.size - 1
        assert outside["bytes"] == 16 * layout.counts()[rank] * (comm.size - 1)
        assert inside["seconds"] >= 0.02
        assert entry["peak_memory"] > 1e6
    table = profile_table(ranks)
    assert "inside" in table
    assert table.count("\n") >= 4


def test_what_follows_two_dashes_is_for_petsc(capsys, monkeypatch):
    monkeypatch.setenv("PETSC_OPTIONS", "-before 1")
    assert main(["--version", "--", "-log_view", "-ksp_type", "cg"]) == 0
    assert os.environ["PETSC_OPTIONS"] == "-before 1 -log_view -ksp_type cg"
    assert "thalweg" in capsys.readouterr().out


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
