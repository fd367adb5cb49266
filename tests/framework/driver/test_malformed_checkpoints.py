"""Checkpoints with right digests and wrong content are refused, and no file beside is read."""

import json
import os

import numpy as np
import pytest

import thalweg
from thalweg.driver import checkpoint
from thalweg.errors import CheckpointError

BESIDE = "../../beside.npy"


def state(tree):
    return tree["dict"]["state"]["fields"]


def put(name, value):
    def change(head):
        state(head["tree"])[name] = value

    return change


def rows(*content, **more):
    """The iterate's file and counts of rows."""
    return put("x", {"rows": list(content), **more})


def whole(tree):
    return lambda head: head.update(tree=tree)


def part(name, value):
    return lambda head: head["tree"]["dict"].update({name: value})


def progress(**changes):
    return lambda head: head["tree"]["dict"]["progress"]["dict"].update(changes)


CHANGES = {
    "rows too many": rows("state.x.npy", [24], ""), "rows negative": rows("state.x.npy", [-23], ""),
    "rows of both signs": rows("state.x.npy", [24, -1], ""),
    "rows a string": rows("state.x.npy", "23", ""), "rows strings": rows("state.x.npy", ["23"], ""),
    "rows huge": rows("state.x.npy", [10**30], ""), "rows a bool": rows("state.x.npy", [True], ""),
    "rows with another key": rows("state.x.npy", [23], "", more=1),
    "rows outside": rows(BESIDE, [23], ""),
    "rows outside by their path": rows(os.path.abspath(os.sep + "beside.npy"), [23], ""),
    "rows of another digest": rows("planted.npy", [23], "0"), "rows of a number": rows(3, [23], ""),
    "rows of a list": rows(["state.x.npy"], [23], ""),
    "fields of no dataclass": put("past", {"fields": {"a": 1}}),
    "own rows outside": put("past", {"own rows": [BESIDE, [23], ""]}),
    "own rows without counts": put("past", {"own rows": ["state.x.npy"]}),
    "state none": part("state", None), "state a list": part("state", {"list": [1]}),
    "x a list": put("x", {"list": [1.0]}), "x none": put("x", None),
    "no field 'velocity'": lambda head: state(head["tree"]).pop("velocity"),
    "a field 'velocities'": put("velocities", 0.0), "value a string": put("value", "low"),
    "value none": put("value", None), "tree none": whole(None), "tree empty": whole({}),
    "tree an empty dict": whole({"dict": {}}), "tree a list": whole([]),
    "tree a stored list": whole({"list": []}), "tree of a string": whole({"dict": "state"}),
    "tree of an unknown kind": put("past", {"pickle": "cos"}),
    "status unknown": put("outcome", {"status": "FINE"}),
    "status a list": put("outcome", {"status": ["RUNNING"]}),
    "array unknown": put("past", {"array": "nothing"}), "array a list": put("past", {"array": []}),
    "progress with another counter": progress(more=1),
    "progress of strings": progress(iteration="many"),
    "progress with bad values": progress(values={"list": ["low"]}),
    "stage a string": progress(stage="first"), "no progress": part("progress", None),
    "no seconds": part("seconds", {"dict": {}}), "trace a number": part("trace", 3.0),
    "trace of other columns": part("trace", {"list": [1.0, 2.0]}),
    "parts a list": part("parts", {"list": []}),
    "arrays of no digest": lambda head: head.update(arrays=None),
    "arrays of a list": lambda head: head.update(arrays=["0"]),
    "identity a list": lambda head: head.update(identity=["objective"]),
}  # fmt: skip


def resealed(folder, change):
    """Change a manifest, and make its digest right again, as an attacker would."""
    manifest = folder / (folder / "latest").read_text().strip() / checkpoint.MANIFEST
    head = json.loads(manifest.read_text())
    del head["digest"]
    change(head)
    head["digest"] = checkpoint._digest_of(head)
    manifest.write_text(json.dumps(head))
    return manifest.parent


@pytest.fixture
def rules(comm, bowl, heavy_ball, folder):
    """A folder with a checkpoint, and files that none of its digests covers."""
    given = {"solver": heavy_ball(), "checkpoint": folder, "iterations": 3, "decrease": None}
    thalweg.minimize(bowl(comm), **given)
    if comm.rank == 0:
        np.save(folder.parent / "beside.npy", np.ones((23, 2)))
        np.save(folder / "000000003" / "planted.npy", np.ones((23, 2)))
    comm.Barrier()
    return given


def refused(comm, bowl, rules, message="checkpoint"):
    with pytest.raises(CheckpointError, match=message) as caught:
        thalweg.minimize(bowl(comm), **rules, resume=True)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", CHANGES)
def test_malformed_content_is_one_sentence(comm, bowl, folder, rules, name):
    resealed(folder, CHANGES[name])
    refused(comm, bowl, rules, name.partition(" ")[2] if "field '" in name else "checkpoint")


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("name", ["rows of both signs", "x a list", "array unknown", "no seconds"])
def test_malformed_content_is_refused_on_all_ranks(comm, bowl, folder, rules, name):
    if comm.rank == 0:
        resealed(folder, CHANGES[name])
    comm.Barrier()
    refused(comm, bowl, rules)


def as_link(path):
    path.rename(path.with_name("there"))
    path.symlink_to("there")


def as_pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("replace", [as_link, as_pipe])
@pytest.mark.parametrize("name", ["state.x.npy", "arrays.npz", "checkpoint.json", "../latest"])
def test_only_regular_files_are_read(comm, bowl, folder, rules, name, replace):
    replace(resealed(folder, lambda head: None) / name)
    refused(comm, bowl, rules, "regular file|no checkpoint.json")


def test_a_resealed_checkpoint_is_read(comm, bowl, folder, rules):
    resealed(folder, put("step_length", 0.5))
    assert thalweg.minimize(bowl(comm), **rules, resume=True).iterations == 3
