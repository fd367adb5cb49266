"""The checks name what is there, what is wrong, and what to do; the command shows that once."""

import sys
import types

import pytest

from thalweg.plugins import Provider
from thalweg.workbench import doctor
from thalweg.workbench.command import installation


def named(findings, name):
    return next(finding for finding in findings if finding.name == name)


@pytest.mark.parametrize("text", ["numpy.core.multiarray failed to import", "_ARRAY_API not found"])
def test_a_numpy_of_another_abi_is_told_from_other_failures(monkeypatch, text):
    def fail(name):
        raise ImportError(text)

    monkeypatch.setattr(doctor.importlib, "import_module", fail)
    finding = doctor.import_failure("petsc4py.PETSc")
    assert finding.broken
    assert "compiled for another NumPy" in finding.problem
    assert "pip install 'numpy" in finding.advice


def fake_mpirun(folder, answer):
    program = folder / "mpirun"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    return folder


def test_an_mpirun_of_another_mpi_is_broken_and_one_that_starts_nothing_is_quoted(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", f"{fake_mpirun(tmp_path, 'echo 1; echo 1')}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    _, finding = doctor.launcher()
    assert finding.broken
    assert "do not see each other" in finding.problem
    fake_mpirun(tmp_path, "echo ------ >&2; echo not as root >&2; exit 1")
    _, finding = doctor.launcher()
    assert not finding.broken
    assert finding.problem == "mpirun did not start two ranks: not as root"


def test_two_mpi_libraries_in_one_process_are_broken(tmp_path):
    maps = tmp_path / "maps"
    line = "7f00-7f01 r-xp 00000000 fe:01 1 {}\n"
    maps.write_text(line.format("/usr/lib/libmpi.so.40.30.4") * 2)
    assert list(doctor.mpi_libraries(maps)) == []
    maps.write_text(maps.read_text() + line.format("/opt/mpich/lib/libmpi.so.12.1.1"))
    (finding,) = doctor.mpi_libraries(maps)
    assert finding.broken


@pytest.mark.petsc
def test_an_installation_in_order_is_well(capsys, monkeypatch):
    assert installation.doctor_command([]) == 0
    text = capsys.readouterr().out
    assert text.rstrip().endswith("no problems found")
    for name in ("Python", "numpy", "petsc4py", "MPI", "external solvers", "kernel cache"):
        assert name in text


def test_on_several_ranks_it_reports_once_and_counts_them(mpirun, monkeypatch, tmp_path):
    monkeypatch.setenv("THALWEG_CACHE", str(tmp_path))
    done = mpirun(2, [sys.executable, "-m", "thalweg.workbench.command.main", "doctor"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("no problems found") == 1
    assert "ranks 2, threads per rank 1" in done.stdout


def test_a_broken_plugin_makes_the_installation_broken_and_tells_why(monkeypatch, capsys):
    sick = Provider("sick", "thalweg-sick", "0.3", "ImportError: no module named 'x'")
    found = types.SimpleNamespace(providers=[], broken=[sick], specs=lambda kind: [])
    monkeypatch.setattr("thalweg.plugins.plugins", lambda: found)
    assert installation.doctor_command([]) == 2
    text = capsys.readouterr().out
    assert "not loaded: ImportError: no module named 'x'" in text
    assert "uninstall it" in text
    assert text.rstrip().endswith("broken: 1")
