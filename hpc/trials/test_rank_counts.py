"""One objective at 1, 2, 3, 4 and 8 ranks, to the stated tolerance.

Value and gradient of each family at a fixed point, on problems large enough for what only large
ones do.  See ``objective_values.py``.
"""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = str(Path(__file__).with_name("objective_values.py"))
PROGRAM = runpy.run_path(RUNNER)
CASES = PROGRAM["CASES"]

#: What slopes may differ by, relative to the length of the gradient: in single precision, as meshes
#: and features are evaluated, and in double.
SINGLE, DOUBLE = 1e-4, 1e-9


@pytest.fixture(scope="module")
def alone():
    command = [sys.executable, RUNNER, *CASES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return dict(zip(CASES, lines, strict=True))


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_values_and_gradients_are_those_of_one_rank(trial, alone, ranks):
    names = list(CASES)
    done = trial.run(ranks, [sys.executable, RUNNER, *names], seconds=900)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    trial.cases(len(names))
    for name, found in zip(names, lines, strict=True):
        slope = SINGLE if "by slabs" in name or name.endswith("by features") else DOUBLE
        apart = PROGRAM["differences"](found, alone[name], slope)
        assert max(apart.values()) <= 1.0, (name, apart, found, alone[name])
