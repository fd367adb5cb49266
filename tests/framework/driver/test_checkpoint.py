"""Checkpoints: exact resumption, whole files, and refusals."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import thalweg
from thalweg.driver import Checkpoints, checkpoint, drive
from thalweg.errors import CheckpointError
from thalweg.parallel import MPI
from thalweg.result import Status


@pytest.fixture
def folder(comm, tmp_path_factory):
    """A folder that all ranks know."""
    path = comm.bcast(tmp_path_factory.mktemp("checkpoint") if comm.rank == 0 else None)
    yield path
    comm.Barrier()


@pytest.mark.ranks(1, 2, 3)
def test_a_resumed_run_ends_at_the_same_bits(comm, bowl, heavy_ball, folder):
    rules = {"solver": heavy_ball(), "decrease": None}
    whole = thalweg.minimize(bowl(comm), iterations=30, **rules)
    thalweg.minimize(bowl(comm), iterations=13, checkpoint=folder, **rules)
    resumed = thalweg.minimize(bowl(comm), iterations=30, checkpoint=folder, resume=True, **rules)
    assert np.array_equal(whole.x, resumed.x)
    assert np.array_equal(whole.trace["objective"], resumed.trace["objective"])
    assert np.array_equal(whole.trace["speed"], resumed.trace["speed"])
    assert resumed.evaluations == whole.evaluations


@pytest.mark.ranks(2, 3)
def test_a_signal_on_one_rank_stops_all_with_a_checkpoint(comm, bowl, heavy_ball, folder):
    def callback(iterate):
        if iterate.iteration == 5 and comm.rank == comm.size - 1:
            os.kill(os.getpid(), signal.SIGUSR1)

    rules = {"solver": heavy_ball(), "decrease": None, "iterations": 20, "checkpoint": folder}
    stopped = thalweg.minimize(bowl(comm), callback=callback, **rules)
    assert stopped.status is Status.INTERRUPTED
    assert stopped.status.exit_code == 75
    resumed = thalweg.minimize(bowl(comm), resume=True, **rules)
    whole = thalweg.minimize(bowl(comm), **{**rules, "checkpoint": None})
    assert np.array_equal(whole.x, resumed.x)


@pytest.mark.ranks(3)
def test_a_checkpoint_of_another_rank_count_is_redistributed(comm, bowl, heavy_ball, folder):
    rules = {"solver": heavy_ball(), "decrease": None}
    if comm.rank == 0:
        alone = bowl(MPI.COMM_SELF)
        thalweg.minimize(alone, iterations=10, checkpoint=folder, **rules)
    comm.Barrier()
    resumed = thalweg.minimize(bowl(comm), iterations=25, checkpoint=folder, resume=True, **rules)
    whole = thalweg.minimize(bowl(comm), iterations=25, **rules)
    assert np.allclose(resumed.x, whole.x, rtol=1e-12, atol=1e-12)


@pytest.mark.ranks(1, 2)
def test_another_problem_is_refused_with_the_option_that_differs(comm, bowl, heavy_ball, folder):
    objective = bowl(comm)
    first = Checkpoints(folder, identity={"objective.perplexity": 30})
    drive(objective, heavy_ball(), objective.initial_point(0), checkpoints=first)
    other = Checkpoints(folder, identity={"objective.perplexity": 20})
    with pytest.raises(CheckpointError, match=r"objective\.perplexity was 30 and is now 20"):
        drive(objective, heavy_ball(), objective.initial_point(0), checkpoints=other, resume=True)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("victim", ["checkpoint.json", "arrays.npz", "state.x.npy"])
def test_a_damaged_checkpoint_is_refused(comm, bowl, heavy_ball, folder, victim):
    rules = {"solver": heavy_ball(), "iterations": 4, "checkpoint": folder}
    thalweg.minimize(bowl(comm), **rules)
    if comm.rank == 0:
        (version,) = [path for path in folder.iterdir() if path.is_dir()]
        content = (version / victim).read_bytes()
        (version / victim).write_bytes(content[: len(content) // 2])
    comm.Barrier()
    with pytest.raises(CheckpointError, match="damaged"):
        thalweg.minimize(bowl(comm), resume=True, **rules)


@pytest.mark.ranks(1)
def test_a_half_written_version_is_never_read(comm, bowl, heavy_ball, folder):
    rules = {"solver": heavy_ball(), "decrease": None, "checkpoint": folder}
    whole = thalweg.minimize(bowl(comm), iterations=9, **rules)
    (version,) = [path for path in folder.iterdir() if path.is_dir()]
    shutil.copytree(version, folder / "000000099.partial")
    (folder / "000000099.partial" / "checkpoint.json").write_text("{")
    resumed = thalweg.minimize(bowl(comm), iterations=9, resume=True, **rules)
    assert np.array_equal(whole.x, resumed.x)


@pytest.mark.ranks(1)
def test_nothing_to_resume_starts_from_the_beginning(comm, bowl, heavy_ball, folder):
    result = thalweg.minimize(
        bowl(comm), solver=heavy_ball(), iterations=3, checkpoint=folder, resume=True
    )
    assert result.iterations == 3


@pytest.mark.ranks(1)
def test_a_state_that_cannot_be_saved_names_its_field(comm, bowl, heavy_ball, folder):
    class Odd(heavy_ball):
        def init(self, objective, x):
            state = super().init(objective, x)
            state.past = [object()]
            return state

    with pytest.raises(TypeError, match=r"state\.past"):
        thalweg.minimize(bowl(comm), solver=Odd(), iterations=0, checkpoint=folder)


class Died(BaseException):
    """Stands for the end of the process at a moment of the test's choice."""


@pytest.mark.ranks(1)
@pytest.mark.parametrize("call", range(12))
@pytest.mark.parametrize("number", [4, 5])
def test_a_run_that_dies_while_writing_keeps_the_checkpoint_before(
    comm, bowl, folder, monkeypatch, call, number
):
    """At every step on the way, also where the number was written before."""
    checkpoints, objective = Checkpoints(folder), bowl(comm)
    checkpoints.write(comm, 4, {"value": np.array([1.0])})
    calls = []

    def dying(real):
        def step(*arguments, **options):
            calls.append(arguments)
            if len(calls) == call + 1:
                raise Died
            return real(*arguments, **options)

        return step

    with monkeypatch.context() as patched:
        for place, name in ((os, "fsync"), (Path, "rename"), (Path, "replace"), (shutil, "rmtree")):
            patched.setattr(place, name, dying(getattr(place, name)))
        with contextlib.suppress(Died):
            checkpoints.write(comm, number, {"value": np.array([2.0])})
    found = checkpoints.read(objective)
    assert found["value"] in (1.0, 2.0)
    checkpoints.write(comm, number, {"value": np.array([3.0])})
    assert checkpoints.read(objective)["value"] == 3.0
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 1


@pytest.mark.ranks(1)
def test_older_checkpoints_go_only_after_the_pointer_is_on_the_disk(
    comm, bowl, folder, monkeypatch
):
    checkpoints = Checkpoints(folder)
    checkpoints.write(comm, 4, {"value": 1})
    events = []
    flush, remove = checkpoint._flush, shutil.rmtree
    monkeypatch.setattr(
        checkpoint, "_flush", lambda path: (events.append(("flush", path.name)), flush(path))
    )
    monkeypatch.setattr(
        shutil,
        "rmtree",
        lambda path, **o: (events.append(("remove", path.name)), remove(path, **o)),
    )
    checkpoints.write(comm, 5, {"value": 2})
    gone = events.index(("remove", "000000004"))
    assert ("flush", "latest.partial") in events[:gone]
    assert events[gone - 1] == ("flush", folder.name)
