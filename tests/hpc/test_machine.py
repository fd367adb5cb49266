"""What a benchmark says of its machine."""

import platform
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from hpc.machine import describe_machine


@pytest.mark.petsc
def test_the_machine_is_described_without_names_or_paths():
    found = describe_machine()
    assert found["cores"] >= 1
    assert found["memory"] > 0
    assert {"python", "petsc", "mpi", "numpy", "thalweg"} <= set(found["versions"])
    text = repr(found)
    assert "/" not in found["processor"]
    assert platform.node() not in text
