"""Checkpoints: exact resumption, whole files, and refusals."""

import contextlib
import errno
import itertools
import os
import shutil
import signal
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest

import thalweg
from thalweg.driver import Checkpoints, HomotopySchedule, Stop
from thalweg.errors import CheckpointError, RankError
from thalweg.interfaces import Objective, OwnRows, Rows
from thalweg.parallel import MPI, Layout, on_root
from thalweg.plugins import Provider, plugins
from thalweg.result import Status


@pytest.mark.ranks(3)
def test_a_checkpoint_of_another_rank_count_is_redistributed(comm, bowl, heavy_ball, folder):
    rules = {"solver": heavy_ball(), "decrease": None}
    if comm.rank == 0:
        thalweg.minimize(bowl(MPI.COMM_SELF), iterations=10, checkpoint=folder, **rules)
    comm.Barrier()
    resumed = thalweg.minimize(bowl(comm), iterations=25, checkpoint=folder, resume=True, **rules)
    whole = thalweg.minimize(bowl(comm), iterations=25, **rules)
    assert np.allclose(resumed.x, whole.x, rtol=1e-12, atol=1e-12)


def test_a_state_that_cannot_be_saved_names_its_field(comm, bowl, heavy_ball, folder):
    class Odd(heavy_ball):
        def init(self, objective, x):
            return replace(super().init(objective, x), past=[object()])

    with pytest.raises(TypeError, match=r"state\.past"):
        thalweg.minimize(bowl(comm), solver=Odd(), iterations=0, checkpoint=folder)


class Died(BaseException):
    """Stands for the end of the process at a moment of the test's choice."""


@pytest.mark.parametrize("call", range(0, 24, 2))
@pytest.mark.parametrize("number", [4, 5])
def test_a_run_that_dies_while_writing_keeps_the_checkpoint_before(
    comm, bowl, folder, monkeypatch, call, number
):
    """At every step on the way, also where the number was written before."""
    checkpoints, objective = Checkpoints(folder), bowl(comm)
    checkpoints.write(objective, 4, {"value": np.array([1.0])})
    calls = []

    def dying(real):
        def step(*arguments, **options):
            calls.append(arguments)
            if len(calls) == call + 1:
                raise Died
            return real(*arguments, **options)

        return step

    with monkeypatch.context() as patched:
        for place, name in ((os, "fsync"), (Path, "rename"), (os, "replace"), (Path, "unlink")):
            patched.setattr(place, name, dying(getattr(place, name)))
        with contextlib.suppress(Died):
            checkpoints.write(objective, number, {"value": np.array([2.0])})
    assert checkpoints.read(objective)["value"] in (1.0, 2.0)
    checkpoints.write(objective, number, {"value": np.array([3.0])})
    assert checkpoints.read(objective)["value"] == 3.0
    assert len([path for path in folder.iterdir() if path.is_dir()]) <= 2


def test_only_what_carries_name_and_manifest_is_removed(comm, bowl, heavy_ball, folder):
    external = ["thesis", "000000001", "000000002.partial", "000000003-1", ".git", "12"]
    for name in external:
        (folder / name).mkdir()
        (folder / name / "checkpoint.txt").write_text("mine")
    (folder / "000000001" / "checkpoint.json").write_text("[1, 2]")
    (folder / "elsewhere").mkdir()
    checkpoints = Checkpoints(folder)
    checkpoints.write(bowl(comm), 7, {})
    shutil.move(folder / "000000007", folder / "elsewhere" / "kept")
    (folder / "000000000").symlink_to(folder / "elsewhere" / "kept")
    for number in (8, 9, 10):
        checkpoints.write(bowl(comm), number, {})
    for name in external:
        assert (folder / name / "checkpoint.txt").read_text() == "mine"
    assert (folder / "elsewhere" / "kept" / "checkpoint.json").exists()
    found = {path.name for path in folder.iterdir()} - {*external, "elsewhere", "000000000"}
    assert found == {"000000009", "000000010", "latest"}


@pytest.mark.ranks(1, 2, 3)
def test_keys_that_look_alike_are_kept_apart(comm, bowl, folder):
    rows = [np.full((comm.rank + 1, 2), float(k)) for k in range(3)]
    content = {
        "h.0": Spread(rows[0]),
        "h": [Spread(rows[1]), np.array([1.0])],
        "h_0": np.array([2.0]),
        "../../up": Spread(rows[2]),
        "\u00e9t\u00e9 ": np.array([3.0]),
        "": np.array([4.0]),
        "number": np.bool_(True),
    }
    checkpoints = Checkpoints(folder)
    checkpoints.write(bowl(comm), 1, content)
    found = checkpoints.read(bowl(comm))
    assert list(found) == list(content)
    for part, expected in zip((found["h.0"], found["h"][0], found["../../up"]), rows, strict=True):
        np.testing.assert_array_equal(part["rows"], expected)
    assert ~found["number"] == np.bool_(False)  # which it is not of Python's True
    assert [found["h"][1], found["h_0"], found["\u00e9t\u00e9 "], found[""]] == [1.0, 2.0, 3.0, 4.0]
    assert not (folder.parent / "up.npy").exists()


@dataclass(frozen=True)
class Spread:
    """An array of any number of rows on each rank."""

    rows: OwnRows


@dataclass(frozen=True)
class Held:
    """Arrays like the variable."""

    one: Rows
    several: tuple[Rows, ...]


class Replicated(Objective):
    """A variable that is the same on all ranks."""

    def __init__(self, comm):
        super().__init__(comm, Layout(MPI.COMM_SELF, 23, 2))

    def value_and_gradient(self, x):
        return 0.0, 0.0 * x


@pytest.mark.ranks(3)
@pytest.mark.parametrize("kind", ["distributed", "replicated"])
def test_rows_that_one_rank_wrote_come_back_on_three(comm, bowl, folder, kind):
    build = bowl if kind == "distributed" else Replicated
    whole = np.arange(46.0).reshape(23, 2)
    if comm.rank == 0:
        # A communicator of one rank that is not COMM_SELF, as COMM_WORLD is on one rank.
        Checkpoints(folder).write(build(MPI.COMM_SELF.Dup()), 1, {"held": Held(whole, ())})
    comm.Barrier()
    objective = build(comm)
    found = Checkpoints(folder).read(objective)["held"]
    np.testing.assert_array_equal(found["one"], objective.layout.local(whole))


@pytest.mark.ranks(2, 3)
def test_an_array_of_rows_that_no_annotation_declares_is_found(comm, bowl, folder):
    with pytest.raises(TypeError, match="'own' differs between ranks: annotate"):
        Checkpoints(folder).write(bowl(comm), 1, {"own": np.array([float(comm.rank)])})
    last_bit = np.array([1.0 + comm.rank * 2.0**-52])  # of another processor
    Checkpoints(folder).write(bowl(comm), 1, {"same": last_bit})


@dataclass(frozen=True)
class Places:
    """Entries of a tuple that are each of their own kind."""

    each: tuple[np.ndarray, OwnRows, Rows] | None
    named: Annotated[Rows, "with another mark"]


@pytest.mark.ranks(1, 2, 3)
def test_each_place_of_a_tuple_has_its_own_annotation(comm, bowl, folder):
    def content(objective):
        layout = objective.layout
        some = Layout(layout.comm, 11)
        rows = layout.local(np.arange(46.0).reshape(23, 2))
        return Places((np.arange(3.0), np.arange(11)[some.start : some.stop], rows), rows)

    checkpoints = Checkpoints(folder)
    checkpoints.write(bowl(comm), 1, {"places": content(bowl(comm))})
    for ranks in (comm, MPI.COMM_SELF):
        found, wanted = checkpoints.read(bowl(ranks))["places"], content(bowl(ranks))
        for one, other in zip(found["each"], wanted.each, strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(found["named"], wanted.named)
    comm.Barrier()


class Pair(NamedTuple):
    """A tuple that would come back as another."""

    value: float


#: What cannot be saved on all ranks, by what is said of it.
UNFIT = {
    "is annotated as rows, and is a number": lambda rank: Spread(np.array(1.0)),
    "is a complex": lambda rank: 1j,
    "is a MaskedArray": lambda rank: np.ma.ones(2),
    "is a Counter": lambda rank: Counter("a"),
    "is a Signals": lambda rank: signal.SIGTERM,
    "'part.0' differs between ranks": lambda rank: [0.5 + rank],
    "'part.b' differs between ranks": lambda rank: {"b": 2**64 + rank},
    "is a Pair": lambda rank: Pair(1.0),
    "has the key 0, not a string": lambda rank: {0: 1.0},
    "rows of another type or width.*3": lambda rank: Spread(np.ones((2, 2 + rank))),
    "rows of another type or width.*int": lambda rank: Spread(np.ones(2, int if rank else float)),
    "'part.rows' differs between": lambda rank: Spread(np.ones(2) if rank else None),
    "1' is of another kind": lambda rank: (np.ones(2),) * (1 + rank),
    "differs between ranks": lambda rank: np.ones(2) * rank,
}


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("said", UNFIT)
def test_what_cannot_be_saved_is_refused_on_all_ranks_and_leaves_nothing(comm, bowl, folder, said):
    if comm.size == 1 and not said.startswith(("is a", "has the key")):
        return  # which takes several ranks
    with pytest.raises((TypeError, RankError), match=said):
        Checkpoints(folder).write(bowl(comm), 1, {"part": UNFIT[said](comm.rank)})
    assert on_root(comm, lambda: list(folder.iterdir())) == []


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE = {
    "flip": _flip,
    "halve": _halve,
    "empty": lambda path: path.write_bytes(b""),
    "remove": Path.unlink,
}


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("victim", ["checkpoint.json", "arrays.npz", "state.x.npy"])
def test_damage_is_one_sentence_and_the_older_checkpoint_is_named(
    comm, bowl, heavy_ball, folder, victim, how
):
    if comm.size > 1 and (victim, how) != ("state.x.npy", "flip"):
        return
    rules = {"solver": heavy_ball(), "checkpoint": folder, "decrease": None}
    whole = thalweg.minimize(bowl(comm), iterations=6, **{**rules, "checkpoint": None})
    thalweg.minimize(bowl(comm), iterations=3, **rules)
    thalweg.minimize(bowl(comm), iterations=4, resume=True, **rules)
    if comm.rank == 0:
        DAMAGE[how](folder / "000000004" / victim)
    comm.Barrier()
    before = sorted(folder.rglob("*"))
    comm.Barrier()
    with pytest.raises(CheckpointError, match="damaged") as caught:
        thalweg.minimize(bowl(comm), iterations=6, resume=True, **rules)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert "write 000000003 into the file" in str(caught.value)
    assert sorted(folder.rglob("*")) == before
    comm.Barrier()
    if comm.rank == 0:
        (folder / "latest").write_text("000000003")
    comm.Barrier()
    resumed = thalweg.minimize(bowl(comm), iterations=6, resume=True, **rules)
    np.testing.assert_array_equal(resumed.x, whole.x)


@pytest.mark.parametrize("name", ["", "../000000004", "000000099", "\udcff", "00000004"])
def test_a_damaged_pointer_never_starts_from_zero(comm, bowl, heavy_ball, folder, name):
    rules = {"solver": heavy_ball(), "iterations": 4, "checkpoint": folder}
    thalweg.minimize(bowl(comm), **rules)
    (folder / "latest").write_text(name, errors="surrogateescape")
    with pytest.raises(CheckpointError, match="damaged"):
        thalweg.minimize(bowl(comm), resume=True, **rules)


def test_without_a_pointer_the_newest_version_is_taken(comm, bowl, heavy_ball, folder):
    """As a run leaves it that dies at its first checkpoint, before it writes the pointer."""
    rules = {"solver": heavy_ball(), "decrease": None, "checkpoint": folder}
    thalweg.minimize(bowl(comm), iterations=4, **rules)
    (folder / "latest").unlink()
    resumed = thalweg.minimize(bowl(comm), iterations=4, resume=True, **rules)
    assert resumed.trace["iteration"][-1] == 4


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("room", [0, 4])
def test_a_full_disk_ends_no_run(comm, bowl, heavy_ball, folder, monkeypatch, room, caplog):
    rules = {"solver": heavy_ball(), "decrease": None, "checkpoint": folder}
    whole = thalweg.minimize(bowl(comm), iterations=9, **{**rules, "checkpoint": None})
    thalweg.minimize(bowl(comm), iterations=3, **rules)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # once some writes have gone well
    ends = itertools.chain([None] * (room if comm.rank == 0 else 99), itertools.repeat(full))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", Mock(side_effect=ends))
        result = thalweg.minimize(bowl(comm), iterations=6, resume=True, **rules)
    assert result.status is Status.ITERATION_LIMIT
    assert not result.saved
    (note,) = result.notes
    assert "at iteration 6: cannot write" in note
    assert "No space left on device" in note
    assert len(caplog.messages) == (comm.rank == 0)
    comm.Barrier()
    assert [path.name for path in folder.iterdir() if path.name.endswith(".partial")] == []
    resumed = thalweg.minimize(bowl(comm), iterations=9, resume=True, **rules)
    assert resumed.saved
    np.testing.assert_array_equal(resumed.x, whole.x)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("stopped_at", [5, 9])  # in the first stage of three, and in the last
def test_a_run_whose_early_stages_a_limit_ends_resumes_to_the_bit(
    comm, bowl, heavy_ball, folder, stopped_at
):
    rules = {
        "solver": heavy_ball(),
        "homotopy": HomotopySchedule((4.0, 2.0, 1.0), Stop(iterations=12, decrease=None)),
        "decrease": None,
    }
    whole = thalweg.minimize(bowl(comm), iterations=10, **rules)
    rules |= {"checkpoint": folder, "iterations": 10}
    thalweg.minimize(bowl(comm), callback=lambda at: at.iteration == stopped_at, **rules)
    resumed = thalweg.minimize(bowl(comm), resume=True, **rules)
    assert resumed.notes == whole.notes != ()
    np.testing.assert_array_equal(resumed.x, whole.x)
    for column in ("iteration", "evaluations", "objective", "lambda", "speed"):
        np.testing.assert_array_equal(resumed.trace[column], whole.trace[column])


def test_a_checkpoint_of_another_version_of_a_plugin_is_refused(comm, bowl, folder, monkeypatch):
    rules = {"solver": "lbfgs", "checkpoint": folder}
    thalweg.minimize(bowl(comm), iterations=2, **rules)
    other = Provider("descent", "thalweg", "99.0")
    monkeypatch.setattr(type(plugins()), "provider", lambda self, spec: other)
    with pytest.raises(CheckpointError, match=r"distribution was 'thalweg .*'thalweg 99\.0'"):
        thalweg.minimize(bowl(comm), iterations=4, resume=True, **rules)
