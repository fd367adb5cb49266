"""Kernels are compiled once, whoever asks, and run wherever the cache may or may not lie."""

import gc
import importlib
import itertools
import math
import os
import sys
import time
import weakref
from types import FunctionType, ModuleType, SimpleNamespace

import filelock
import numba
import numpy as np
import pytest
from ranks.launch import run_limited

from thalweg.parallel import kernel, kernels, traffic
from thalweg.parallel.kernels import cache_folder


def total(values):
    result = 0.0
    for i in range(values.shape[0]):
        result += values[i]
    return result


@pytest.fixture
def cache(folder, monkeypatch):
    """A cache folder, not there yet, that all ranks share."""
    monkeypatch.setenv("THALWEG_CACHE", str(folder / "cache"))
    return folder / "cache"


def compilations(compiled):
    return sum(compiled.dispatcher.stats.cache_misses.values())


@pytest.mark.ranks(1, 2, 3)
def test_ranks_that_start_at_once_compile_once_together(comm, cache):
    compiled = kernel()(total)
    comm.Barrier()
    assert compiled(np.arange(5.0)) == 10.0
    assert sum(comm.allgather(compilations(compiled))) == 1
    assert all(comm.allgather(cache_folder() == cache))


@pytest.mark.ranks(1, 2)
def test_a_later_run_loads_without_waiting_for_anyone(comm, cache):
    first = kernel()(total)
    first(np.arange(5.0))
    comm.Barrier()
    [lock] = map(filelock.FileLock, first.locks)
    if comm.rank == 0:
        lock.acquire()
    comm.Barrier()
    try:
        later = kernel()(total)
        assert (later(np.arange(4.0)), compilations(later)) == (6.0, 0)
    finally:
        comm.Barrier()
        lock.release()


def add_to(values, sums):
    for i in range(values.shape[0]):
        sums[0] += values[i]


def test_arrays_that_are_read_alone_are_compiled_once_whether_they_may_be_written_or_not(cache):
    compiled = kernel(writes=("sums",))(add_to)
    values, sums = np.arange(4.0), np.zeros(1)
    compiled(values, sums)
    assert values.flags.writeable
    values.flags.writeable = False
    compiled(values, sums)
    assert (sums[0], compilations(compiled)) == (12.0, 1)


def test_callers_of_a_kernel_that_is_compiled_keep_nothing_alive(cache):
    # Vectors kept on the rank that compiles made PETSc wait for ever at the end of the process.
    def total(values):
        return np.sum(values, axis=0)  # Numba tries a signature that fails, and keeps its error

    def caller():
        kept = Kept()
        kernel()(total)(np.arange(3.0))
        return weakref.ref(kept)

    class Kept:
        pass

    gc.collect()
    gc.disable()
    try:
        assert caller()() is None
    finally:
        gc.enable()


def test_an_unwritable_cache_is_replaced_by_a_private_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("THALWEG_CACHE", "/proc/thalweg")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = cache_folder()
    assert (folder, folder.stat().st_mode & 0o077) == (tmp_path / f"thalweg-{os.getuid()}", 0)
    kernels._usable_folder.cache_clear()
    folder.chmod(0o777)  # from one that is open to others, code is never loaded
    assert cache_folder() != folder
    kernels._usable_folder.cache_clear()


def test_code_cached_from_a_module_that_is_gone_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("THALWEG_CACHE", str(tmp_path))

    def called_from(module):
        function = FunctionType(twice.__code__, {"__name__": module, "math": math}, "twice")
        names = {**globals(), "twice": numba.njit(fastmath=True)(function)}
        return kernel(parallel=True)(FunctionType(sum_of_twice.__code__, names, "sum_of_twice"))

    monkeypatch.setitem(sys.modules, "passing", ModuleType("passing"))
    assert called_from("passing")(np.ones(3)) == 6.0
    monkeypatch.delitem(sys.modules, "passing")
    assert called_from("__main__")(np.ones(3)) == 6.0


@pytest.fixture
def package(cache, tmp_path, monkeypatch):
    """Imports a package of two modules from a folder, newly written, and runs its kernel."""

    def run(folder, factor, comment=""):
        place = tmp_path / folder / "copied"
        place.mkdir(parents=True, exist_ok=True)
        (place / "__init__.py").touch()
        (place / "called.py").write_text(
            f"import numba\n@numba.njit\ndef scaled(x):\n    return {factor} * x\n"
        )
        (place / "loops.py").write_text(
            "from thalweg.parallel import kernel\n"
            f"from copied.called import scaled {comment}\n"
            "@kernel()\ndef largest(x):\n    return scaled(x.max())\n"
        )
        for name in [name for name in sys.modules if name.partition(".")[0] == "copied"]:
            del sys.modules[name]
        kernels._file_digest.cache_clear()
        importlib.invalidate_caches()
        with monkeypatch.context() as patched:
            patched.syspath_prepend(str(tmp_path / folder))
            patched.setattr(sys, "dont_write_bytecode", True)
            compiled = importlib.import_module("copied.loops").largest
            return compiled(np.arange(3.0)), compilations(compiled)

    yield run
    for name in [name for name in sys.modules if name.partition(".")[0] == "copied"]:
        del sys.modules[name]


def test_copies_of_a_package_share_what_is_compiled_until_a_file_that_it_calls_changes(package):
    assert package("here", 2) == (4.0, 1)
    assert package("here", 2) == (4.0, 0)  # written again, at another time
    assert package("there", 2) == (4.0, 0)
    assert (package("here", 3), package("there", 2)) == ((6.0, 1), (4.0, 0))
    assert package("here", 3, "# the same") == (6.0, 1)


def twice(x):
    return 2 * x, math.log1p(x)


def sum_of_twice(values):
    total = 0.0
    for i in numba.prange(len(values)):
        total += twice(values[i])[0]
    return total


def test_the_clock_of_a_run_stands_still_while_one_thread_or_two_compile(cache, monkeypatch):
    compiled = kernel()(total)
    ticks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: next(ticks), time=time.time)
    monkeypatch.setattr(traffic, "time", clock)
    before = traffic.run_clock()
    with traffic.COMPILING:  # another thread, all the while
        compiled(np.arange(3.0))
        assert traffic.run_clock() - before == traffic.run_clock() - before == 1
    compiled(np.arange(4.0))
    assert next(ticks) == 3
    assert traffic.run_clock() - before == 3  # of 4 ticks, one of which was spent on compiling


FORKED = """
import multiprocessing
import sys
import numpy as np
import thalweg
from thalweg.parallel.kernels import Kernel

config = {
    "data": {"name": "digits", "rows": 200},
    "objective": {"name": "t-sne", "perplexity": 8},
    "stop": {"iterations": 3},
}

def fit(file):
    np.save(file, thalweg.run(config).x)
    print(Kernel.serial, thalweg.parallel.limit_threads(thalweg.parallel.MPI.COMM_SELF))

def in_child(file):
    child = multiprocessing.get_context("fork").Process(target=fit, args=(file,))
    child.start()
    child.join(200)
    child.kill()
    assert child.exitcode == 0, child.exitcode

if __name__ == "__main__":
    in_child("before.npy")
    fit("parent.npy")
    in_child("after.npy")
"""


@pytest.mark.slow
def test_a_process_forked_after_a_fit_works_without_threads(tmp_path):
    (tmp_path / "forked.py").write_text(FORKED)
    environment = {**os.environ, "THALWEG_THREADS": "2", "NUMBA_THREADING_LAYER": "omp"}
    done = run_limited([sys.executable, "-u", "forked.py"], 400, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["False 2", "False 2", "True 1"]
    before, parent, after = (np.load(tmp_path / f"{n}.npy") for n in ("before", "parent", "after"))
    for child in (before, after):
        assert np.allclose(parent, child, rtol=1e-6, atol=1e-8)
