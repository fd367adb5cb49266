"""Checkpoints with damaged files, refused in one sentence.

Each file of a checkpoint and the pointer to it has a bit flipped at a random place, is cut,
emptied, removed, lengthened, or replaced by the one of another version.  Resuming must end with
exit code 2 and one sentence, and leave everything as it is; or, where the pointer names an older
version, end at the same bits.
"""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import thalweg
from thalweg.errors import CheckpointError

CONFIG = {
    "data": {"name": "digits", "rows": 40},
    "objective": {"name": "elastic-embedding", "perplexity": 6},
    "output": {"pictures": False},
}

#: Flips of one bit in each file.
FLIPS = 12


def _run(folder: Path, iterations: int, resume: bool) -> thalweg.Result:
    config = {**CONFIG, "stop": {"iterations": iterations, "decrease": "none"}}
    return thalweg.run(config, folder, resume=resume)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A run with two versions of a checkpoint, and where the uninterrupted run ends."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    _run(folder, 4, False)
    _run(folder, 6, True)
    whole = _run(folder.with_name("whole"), 9, False)
    return folder, whole.x


def _flip(path: Path, seed: str) -> None:
    content = bytearray(path.read_bytes())
    stream = random.Random(seed)
    content[stream.randrange(len(content))] ^= 1 << stream.randrange(8)
    path.write_bytes(content)


def _content(folder: Path) -> dict[Path, bytes]:
    """All files but the configuration, which holds the stopping rules of the last attempt."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "config.toml")
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("how", [*(f"flip {k}" for k in range(FLIPS)), "cut", "empty", "remove",
                                 "exchange", "longer"])  # fmt: skip
def test_damage_is_found(stopped, tmp_path, trial, how):
    folder, whole = stopped
    checkpoints = folder / "checkpoint"
    newest = (checkpoints / "latest").read_text().strip()
    files = ["latest", *(f"{newest}/{file.name}" for file in (checkpoints / newest).iterdir())]
    older = next(p for p in checkpoints.iterdir() if p.is_dir() and p.name != newest)
    if how == "exchange":  # the memory of the solver grows
        files = [name for name in files if "/" not in name or (older / Path(name).name).exists()]
    trial.cases(len(files))
    for name in files:
        copy = tmp_path / name.replace("/", "-")
        shutil.copytree(folder, copy)
        victim = copy / "checkpoint" / name
        if how.startswith("flip"):
            _flip(victim, f"{how} {name}")
        elif how == "cut":
            victim.write_bytes(victim.read_bytes()[:-1])
        elif how == "empty":
            victim.write_bytes(b"")
        elif how == "remove":
            victim.unlink()
        elif how == "exchange":
            victim.write_bytes(
                (older / victim.name).read_bytes() if "/" in name else older.name.encode()
            )
        else:
            victim.write_bytes(victim.read_bytes() + b"\0")
        before = _content(copy)
        resumed, refusal = None, None
        try:
            resumed = _run(copy, 9, True)
        except CheckpointError as error:
            refusal = error
        if refusal is not None:
            assert "\n" not in str(refusal)
            assert refusal.exit_code == 2
            assert _content(copy) == before, f"{how} {name}: {refusal}"
        else:
            assert name == "latest" or how == "exchange", f"{how} {name} was not noticed"
            np.testing.assert_array_equal(resumed.x, whole)
