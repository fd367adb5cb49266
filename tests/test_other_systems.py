"""What only Linux has is taken away: bindings to cores, /proc, control groups."""

import os
from pathlib import Path

import pytest

from thalweg.parallel import MPI, job_threads
from thalweg.parallel.threads import cpu_quota, threads_per_rank, usable_cores
from thalweg.workbench import doctor
from thalweg.workbench.memory import available_memory


@pytest.fixture(autouse=True)
def _no_linux(monkeypatch):
    open_path, exists = Path.open, Path.exists

    def is_missing(path):
        return str(path).startswith(("/proc", "/sys"))

    def open_another(path, *arguments, **options):
        if is_missing(path):
            raise FileNotFoundError(path)
        return open_path(path, *arguments, **options)

    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(Path, "open", open_another)
    monkeypatch.setattr(
        Path, "exists", lambda path, **how: not is_missing(path) and exists(path, **how)
    )


def test_all_cores_are_usable_where_none_can_be_bound(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.delenv("THALWEG_THREADS", raising=False)
    monkeypatch.setattr("thalweg.parallel.threads._ASKED", "")
    monkeypatch.setattr("thalweg.parallel.threads._launched_here", lambda: 1)
    assert (usable_cores(), threads_per_rank(MPI.COMM_SELF)) == (set(range(6)), 6)
    with job_threads(-1):
        pass


def test_neither_quota_nor_memory_is_limited_where_nothing_states_a_limit(monkeypatch):
    import resource

    assert cpu_quota() == float("inf")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert available_memory() == float("inf")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**33,) * 2)
    assert available_memory() == 2**33


@pytest.mark.parametrize("check", [doctor.cores, doctor.mpi_libraries, doctor.matrix_products])
def test_the_checks_of_an_installation_find_nothing_broken(check):
    assert not any(finding.broken for finding in check())
