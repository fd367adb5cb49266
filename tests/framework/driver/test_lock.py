"""One process at a time writes into a folder, and a dead one stands in nobody's way."""

import os
import signal
import subprocess
import sys
import threading
import time
from unittest.mock import Mock

import pytest

import thalweg
from thalweg import files
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.workbench.run import plot
from thalweg.workbench.run.single_run import Job

QUICK = {
    "objective": {"name": "rosenbrock"},
    "solver": {"name": "gradient-descent"},
    "stop": {"iterations": 2},
    "output": {"pictures": False},
}

OWNER = """
import sys, time
from pathlib import Path
from thalweg import files
files.BEAT, files.LEASE = float(sys.argv[2]), float(sys.argv[3])
owned = files.FolderLock(Path(sys.argv[1]))
owned.acquire()
print("locked", flush=True)
time.sleep(600)
"""


@pytest.fixture
def owner(monkeypatch):
    """Starts processes that write into a folder until they are killed."""
    monkeypatch.setattr(files, "BEAT", 0.2)
    monkeypatch.setattr(files, "LEASE", 3.0)
    started = []

    def start(folder):
        command = [sys.executable, "-c", OWNER, str(folder), str(files.BEAT), str(files.LEASE)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "locked\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.ranks(1, 2, 3)
def test_a_folder_in_which_another_process_writes_is_refused(comm, folder, owner):
    thalweg.run(QUICK, folder, comm=comm)
    changes = ["stop.iterations=4"]
    if comm.rank == 0:
        process = owner(folder)
        before = contents(folder)
    pid = comm.bcast(process.pid if comm.rank == 0 else None)
    with pytest.raises(InputError, match=rf"process {pid} on host .* is writing into the folder"):
        thalweg.run(QUICK, folder, changes=changes, resume=True, comm=comm)
    if comm.rank == 0:
        with pytest.raises(InputError, match=f"process {pid} on host .*, remove '.*/.lock'"):
            plot(folder)
        assert contents(folder) == before
    comm.barrier()


@pytest.mark.ranks(1, 2)
def test_the_run_of_a_killed_process_is_resumed_at_once(comm, folder, owner):
    thalweg.run(QUICK, folder, comm=comm)
    if comm.rank == 0:
        process = owner(folder)
        process.kill()
        process.wait()
        assert (folder / ".lock").exists()
    comm.barrier()
    began = time.monotonic()
    result = thalweg.run(QUICK, folder, changes=["stop.iterations=4"], resume=True, comm=comm)
    assert result.iterations == 4
    assert time.monotonic() - began < files.LEASE
    assert not (folder / ".lock").exists()
    comm.barrier()


@pytest.mark.parametrize("alive", [True, False])
def test_of_a_process_on_another_host_its_signs_of_life_decide(tmp_path, owner, alive):
    thalweg.run(QUICK, tmp_path / "out", comm=MPI.COMM_SELF)
    owner(tmp_path / "out").kill()
    file = tmp_path / "out" / ".lock"
    lines = file.read_text().splitlines()
    lines = ["host=elsewhere" if line.startswith("host=") else line for line in lines]
    file.write_text("\n".join(lines) + "\n")
    ended = threading.Event()

    def beat():
        while alive and not ended.wait(files.BEAT):
            os.utime(file)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        changes = ["stop.iterations=4"]
        if alive:
            with pytest.raises(InputError, match="on host elsewhere is writing"):
                thalweg.run(QUICK, tmp_path / "out", changes=changes, resume=True)
        else:
            began = time.monotonic()
            thalweg.run(QUICK, tmp_path / "out", changes=changes, resume=True)
            assert time.monotonic() - began >= files.LEASE
    finally:
        ended.set()
        thread.join()


def test_a_folder_whose_owner_died_nameless_is_refused_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BEAT", 0.2)
    (tmp_path / ".lock").touch()
    began = time.monotonic()
    with pytest.raises(InputError, match=r"no such process, remove '.*/\.lock'"):
        files.FolderLock(tmp_path).acquire()
    assert time.monotonic() - began < 0.1 * files.LEASE
    assert (tmp_path / ".lock").exists()


@pytest.mark.ranks(1, 2, 3)
def test_checkpoints_of_a_call_are_its_own_while_it_works(comm, folder, owner, bowl):
    seen = []
    rules = {"solver": "gradient-descent", "checkpoint": folder}
    thalweg.minimize(
        bowl(comm),
        iterations=1,
        callback=lambda iterate: seen.append((folder / ".lock").exists()),
        **rules,
    )
    assert seen == [True, True]
    if comm.rank == 0:
        assert not (folder / ".lock").exists()
        owner(folder)
    comm.barrier()
    with pytest.raises(InputError, match="is writing into the folder"):
        thalweg.minimize(bowl(comm), iterations=2, resume=True, **rules)
    comm.barrier()


def test_a_process_that_lost_its_lock_is_told(tmp_path, owner, caplog):
    held = files.FolderLock(tmp_path)
    held.acquire()
    (tmp_path / ".lock").unlink()
    owner(tmp_path)
    deadline = time.monotonic() + 20.0
    while "was lost" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.05)
    held.release()
    assert f"the lock of '{tmp_path}' was lost" in caplog.text
    assert (tmp_path / ".lock").exists()  # it is the other's


def _killed(iterate):
    os.kill(os.getpid(), signal.SIGTERM)
    return False


@pytest.mark.parametrize("error", [RuntimeError("failed"), KeyboardInterrupt(), None])
def test_a_run_that_ends_in_whatever_way_leaves_no_lock(tmp_path, monkeypatch, error):
    seen = []

    minimized = Job.minimized

    def watched(job, **options):
        seen.append((tmp_path / ".lock").exists())
        job.frames = _killed if error is None else Mock(side_effect=error)
        return minimized(job, **options)

    monkeypatch.setattr(Job, "minimized", watched)
    if error is None:
        assert thalweg.run(QUICK, tmp_path, comm=MPI.COMM_SELF).status.name == "INTERRUPTED"
    else:
        with pytest.raises(type(error)):
            thalweg.run(QUICK, tmp_path, comm=MPI.COMM_SELF)
    assert seen == [True]
    assert not (tmp_path / ".lock").exists()
