"""Ranks times threads do not exceed the cores."""

import os
import time

import numba
import numpy as np
import pytest
import threadpoolctl

from thalweg.errors import InputError
from thalweg.parallel import MPI, job_threads, limit_threads, run_on_threads, threads
from thalweg.parallel.threads import cpu_quota, restored_thread_limits, threads_per_rank


@pytest.fixture(autouse=True)
def _no_wishes(monkeypatch):
    monkeypatch.delenv("THALWEG_THREADS", raising=False)
    monkeypatch.setattr(threads, "_ASKED", "")
    for name in threads._LIMITS:
        monkeypatch.setenv(name, os.environ.get(name, "1"))  # put back after the test


def pretend(monkeypatch, cores, quota=float("inf"), launched=1):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cores))
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    monkeypatch.setattr(threads, "_launched_here", lambda: launched)


@pytest.mark.ranks(1, 2, 3)
def test_unbound_ranks_share_the_cores_evenly(comm, monkeypatch):
    pretend(monkeypatch, range(12))
    assert threads_per_rank(comm) == 12 // comm.size


@pytest.mark.ranks(1, 2, 3)
def test_a_rank_bound_to_its_own_cores_uses_all_of_them(comm, monkeypatch):
    pretend(monkeypatch, range(4 * comm.rank, 4 * comm.rank + 4))
    assert threads_per_rank(comm) == 4


@pytest.mark.ranks(1, 2)
def test_a_containers_quota_counts_as_cores(comm, monkeypatch):
    pretend(monkeypatch, range(64), quota=4.0)
    assert threads_per_rank(comm) == 4 // comm.size


def test_launchers_tell_how_many_ranks_share_the_machine(monkeypatch):
    for name in threads._LOCAL_SIZES:
        monkeypatch.delenv(name, raising=False)
    assert threads._launched_here() == 1
    for name in ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):  # Open MPI, MPICH
        with monkeypatch.context() as patch:
            patch.setenv(name, "3")
            assert threads._launched_here() == 3


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "1.5", "²", "9" * 20])
def test_own_variable_must_be_a_positive_integer(monkeypatch, wrong):
    monkeypatch.setenv("THALWEG_THREADS", wrong)
    with pytest.raises(InputError, match="THALWEG_THREADS must be a positive integer"):
        threads_per_rank(MPI.COMM_SELF)


@pytest.mark.parametrize("n_jobs", [1, np.int64(1), -1])
def test_jobs_are_counted_as_scikit_learn_counts_them(n_jobs):
    before = numba.get_num_threads()
    with job_threads(n_jobs):
        cores = len(os.sched_getaffinity(0))
        most = numba.config.NUMBA_NUM_THREADS
        assert numba.get_num_threads() == min(most, 1 if n_jobs > 0 else cores)
    assert numba.get_num_threads() == before


def test_where_work_fails_none_is_left_running():
    def work(item):
        time.sleep(0.01)
        done.append(1 // item)

    done = []
    with job_threads(2), pytest.raises(ZeroDivisionError):
        run_on_threads(work, list(range(40)))
    count = len(done)
    time.sleep(0.05)
    assert len(done) == count < 39


def test_a_limit_reaches_blas_numba_and_libraries_loaded_later_and_is_undone(monkeypatch):
    monkeypatch.setenv("THALWEG_THREADS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with threadpoolctl.threadpool_limits(limits=2), restored_thread_limits():
        before, numba_before = threadpoolctl.threadpool_info(), numba.get_num_threads()
        with restored_thread_limits():
            assert limit_threads(MPI.COMM_SELF) == 1
            assert all(pool["num_threads"] == 1 for pool in threadpoolctl.threadpool_info())
            assert numba.get_num_threads() == 1
            assert {os.environ[name] for name in threads._LIMITS} == {"1"}
        assert (threadpoolctl.threadpool_info(), numba.get_num_threads()) == (before, numba_before)
        assert os.environ["OMP_NUM_THREADS"] == "3"
        assert "MKL_NUM_THREADS" not in os.environ


def test_quota_is_read_from_both_versions_of_control_groups(tmp_path):
    assert cpu_quota(tmp_path / "nowhere") == float("inf")
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    assert cpu_quota(tmp_path) == float("inf")
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("150000\n")
    assert cpu_quota(tmp_path) == 1.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cpu_quota(tmp_path) == float("inf")
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    assert cpu_quota(tmp_path) == 2.5
