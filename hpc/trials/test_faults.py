"""Faults planted on one rank of a run.

Every place in which ranks work together, times everything that one rank alone can meet: the run
must end, with an exit code that tells, and nothing may be called a success.
"""

import re
import sys
import time
from pathlib import Path

import pytest

PLANT = Path(__file__).with_name("plant.py")

#: Where all ranks pass.
PLACES = (
    "configuration", "set-up", "method", "start", "evaluation", "evaluated",
    "preconditioner set-up", "preconditioner", "step", "status", "checkpoint", "metrics", "results",
    "pictures", "close", "end",
)  # fmt: skip

#: Kinds of faults, and the codes with which a run may end that meets them.
KINDS = {
    "input": (2,),
    "value": (1,),
    "memory": (1, 2),
    # A file that cannot be written is bad input, where the code that writes it says so.
    "disk": (1, 2),
    "interrupt": (130, 1),
    "exit": (7, 1),
    "leave": (1,),
    "pipe": (1, 2),
    "kill": (137, 1, 9, -9),
    "sleep": (1,),
}

#: Numbers that one rank alone has.  A run may survive a direction, never a value.
SPOILED = {
    (place, kind): (0, 3) if place == "direction" else (3, 2)
    for place in ("value", "gradient", "direction", "start")
    for kind in ("nan", "inf", "differ")
}

CASES = [
    *[(2, place, kind, 1, codes) for place in PLACES for kind, codes in KINDS.items()],
    *[(3, place, kind, 2, KINDS[kind]) for place in PLACES[3:12] for kind in ("input", "exit")],
    *[(2, place, kind, 0, KINDS[kind]) for place in PLACES[3:12:2] for kind in ("input", "pipe")],
    *[(n, place, kind, 1, codes) for (place, kind), codes in SPOILED.items() for n in (2, 3)],
]


@pytest.mark.parametrize(
    ("ranks", "place", "kind", "rank", "codes"), CASES, ids=lambda value: str(value)
)
def test_a_fault_on_one_rank_ends_the_run(trial, tmp_path, ranks, place, kind, rank, codes):
    command = [sys.executable, PLANT, place, kind, rank, tmp_path]
    if kind in ("nan", "inf", "differ") and place in ("gradient", "start"):
        codes = (0, 2, 3)  # a number among many, which all ranks then have: any outcome that ends
    done = trial.mpirun(ranks, command, seconds=300)
    ended = time.time()
    trial.judge(done, (1, *codes))
    failed = tmp_path / "failed"
    assert (kind in KINDS) == failed.exists(), "the fault was never met"
    if kind in KINDS and kind != "sleep":
        trial.note("slowest", ended - float(failed.read_text()))
    assert done.returncode in codes, done.stderr
    if place == "value" and kind == "differ":
        assert re.search("value.* differs between ranks: .* on rank 0, .* on rank 1", done.stderr)
    if kind == "input":
        assert "planted" in done.stderr
        assert "Traceback" not in done.stderr
    if kind == "value":
        assert f"rank {rank}" in done.stderr
        assert "ValueError: planted" in done.stderr
    if kind == "sleep":
        # Where a rank stands.  The first to say so ends the job by that, so that the launcher may
        # have ended the sleeping one before.
        assert "Timeout (" in done.stderr
        assert ", line " in done.stderr
