"""Packages, streams, folders or variables that are not as they should be, and who says so."""

import json
import os
import sys
import types
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from ranks.launch import run_limited

from thalweg.errors import printable
from thalweg.plugins import Plugins, Provider, SolverSpec
from thalweg.workbench import doctor
from thalweg.workbench.command import installation
from thalweg.workbench.report import format_table, write_map_page

PROGRAM = Path(sys.executable).with_name("thalweg")
CONFIG = """
[objective]
name = "rosenbrock"
[stop]
iterations = 2
[output]
pictures = false
"""


@pytest.fixture
def shell(tmp_path):
    (tmp_path / "c.toml").write_text(CONFIG)

    def run(command, **variables):
        line = ["bash", "-c", command.replace("thalweg", str(PROGRAM))]
        return run_limited(line, 120, cwd=tmp_path, env={**os.environ, **variables})

    return run


def one_sentence(done, *words):
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("thalweg: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


def test_a_package_that_is_missing_is_named_by_what_needs_it(shell, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['mpi4py'] = None\n")
    missing = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    for command in ("list --json", "run c.toml"):
        one_sentence(shell(f"thalweg {command}", **missing), "mpi4py", "install it")
    for command in ("--version", "run --help"):
        done = shell(f"thalweg {command}", **missing)
        assert (done.returncode, done.stderr) == (0, "")
    done = shell("thalweg doctor", **missing)
    assert (done.returncode, done.stderr) == (2, "")
    assert "mpi4py cannot be imported" in done.stdout
    (tmp_path / "sitecustomize.py").write_text("")
    (tmp_path / "numba.py").write_text("raise ImportError('for another NumPy')")
    one_sentence(shell("thalweg list", **missing), "numba", "for another NumPy", "install it")


#: As the wheels of mpi4py do where there is no library of MPI.
WITHOUT_MPI = """
import sys
class Finder:
    def find_spec(name, path, target=None):
        if name == "mpi4py.MPI":
            raise ERROR
sys.meta_path.insert(0, Finder)
"""


def test_where_there_is_no_mpi_library_it_is_said_what_to_install(shell, tmp_path):
    without = {"PYTHONPATH": str(tmp_path)}
    errors = r"RuntimeError('no MPI library\nlibmpi.so')", "ImportError('libmpi.so.12', name='MPI')"
    for error, launched in zip(errors, ({}, {"PMI_SIZE": "1"}), strict=True):
        (tmp_path / "sitecustomize.py").write_text(WITHOUT_MPI.replace("ERROR", error))
        done = shell("thalweg run c.toml", **without, **launched)
        one_sentence(done, "MPI", "pip install 'mpich>=4'")
    assert "pip install 'mpich>=4'" in shell("thalweg doctor", **without).stdout


def test_commands_work_without_petsc(shell, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['petsc4py'] = None\n")
    missing = {"PYTHONPATH": str(tmp_path)}
    done = shell("thalweg run c.toml --out out", **missing)
    assert (done.returncode, done.stderr) == (0, "")
    assert "petsc" not in json.loads((tmp_path / "out" / "result.json").read_text())["versions"]
    assert "tao" in shell("thalweg list", **missing).stdout
    for given in ("--set solver.name=tao:lmvm", "--set run.petsc=-log_view", "-- -log_view"):
        one_sentence(shell(f"thalweg run c.toml {given}", **missing), "PETSc")
    doctor = shell("thalweg doctor", **missing)
    assert doctor.returncode == 0
    assert "factorizations over ranks" in doctor.stdout


@pytest.mark.petsc
def test_options_of_petsc_count_where_the_command_needs_none(shell):
    assert "PETSc Performance Summary" in shell("thalweg run c.toml -- -log_view").stdout


def test_a_run_needs_no_streams(shell, tmp_path):
    assert shell("thalweg run c.toml --out out <&- >&- 2>&-").returncode == 0
    assert np.load(tmp_path / "out" / "solution.npy").shape == (2, 1)


@pytest.mark.parametrize("buffering", ["", "1"])
def test_a_full_disk_under_the_output_costs_no_run(shell, tmp_path, buffering):
    done = shell("thalweg run c.toml --out out > /dev/full", PYTHONUNBUFFERED=buffering)
    assert done.returncode == 0
    assert done.stderr == "thalweg: the output cannot be written: No space left on device\n"
    assert json.loads((tmp_path / "out" / "result.json").read_text())["iterations"] == 2
    if not buffering:
        one_sentence(shell("thalweg list > /dev/full"), "No space left")
        assert shell("thalweg run none.toml 2> /dev/full").returncode == 2


@pytest.mark.parametrize("command", ["run ../c.toml", "doctor"])
def test_a_folder_that_is_gone_is_said(shell, command):
    one_sentence(shell(f"mkdir gone; cd gone; rmdir ../gone; thalweg {command}"), "folder is gone")


@pytest.mark.parametrize("threads", ["-2", "00"])
def test_numbers_of_threads_are_checked_before_numba_is_loaded(shell, threads):
    one_sentence(shell("thalweg run c.toml", NUMBA_NUM_THREADS=threads), "NUMBA_NUM_THREADS")


ODD = "a\nb\x1b[31m\x00\x9b\u2028\ud800"
SHOWN = r"a\nb\x1b[31m\x00\x9b\u2028\ud800"


def test_control_characters_are_shown_in_tables_and_pages(tmp_path):
    assert (printable(ODD), printable("ä – 文\t|")) == (SHOWN, "ä – 文\t|")
    for markdown in (False, True):
        table = format_table([{"method": ODD, f"m{ODD}": 1.0}], markdown)
        assert (table.count(SHOWN), len(table.splitlines())) == (2, 3)
        assert "\x1b" not in table
    page = tmp_path / "map.html"
    write_map_page(page, np.zeros((2, 2)), np.array([0, 1]), (ODD, "b"), ODD, ODD)
    text = page.read_text(encoding="utf-8")
    assert text.count(SHOWN.replace("\\", "\\\\")) == 3
    assert f"<title>{SHOWN}</title>" in text


def test_the_doctor_loads_what_plugins_name(monkeypatch, capsys):
    found = Plugins(only=[])
    spec = SolverSpec(name="sick", summary="", load="nowhere:nothing")
    object.__setattr__(spec, "provider", Provider("ill", "thalweg-ill", "1"))
    found._specs[SolverSpec]["sick"] = spec
    monkeypatch.setattr("thalweg.plugins.plugins", lambda: found)
    (finding,) = doctor.plugin_code()
    assert finding.broken
    assert "'sick' of thalweg-ill 1" in finding.problem
    assert installation.doctor_command([]) == 2
    assert "No module named 'nowhere'" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["numpy.core.multiarray failed to import", "_ARRAY_API not found"])
def test_a_numpy_of_another_abi_is_told_from_other_failures(monkeypatch, text):
    monkeypatch.setattr(doctor.importlib, "import_module", Mock(side_effect=ImportError(text)))
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
    monkeypatch.setenv("PATH", f"{fake_mpirun(tmp_path, 'echo of 1 ranks')}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    _, finding = doctor.launcher()
    assert finding.broken
    assert "do not see each other" in finding.problem
    fake_mpirun(tmp_path, "echo of 2 ranksof 2 ranks")
    assert [finding.problem for finding in doctor.launcher()] == ["", ""]
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
    done = mpirun(2, [sys.executable, "-m", "thalweg", "doctor"])
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
