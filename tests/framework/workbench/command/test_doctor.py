"""The command shows the findings as text or JSON, once for all ranks."""

import json
import sys
import types

import pytest

from thalweg.plugins import Provider
from thalweg.workbench.command import installation


@pytest.mark.petsc
def test_an_installation_in_order_is_well(capsys, monkeypatch):
    assert installation.doctor_command([]) == 0
    text = capsys.readouterr().out
    assert text.rstrip().endswith("no problems found")
    for name in ("Python", "numpy", "petsc4py", "MPI", "external solvers", "kernel cache"):
        assert name in text


def test_json_holds_the_same_findings(capsys):
    assert installation.doctor_command(["--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["well"] is True
    assert {"PETSc", "cores", "plugin descent"} <= {f["name"] for f in report["findings"]}


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
