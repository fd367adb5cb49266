"""A process that compiles the loops over pairs gets the bits of those that load them."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib

from thalweg.parallel import MPI, Layout
from thalweg_embedding.pairs.all_pairs import AllPairs
from thalweg_embedding.pairs.functions import STUDENT

pairs = AllPairs(Layout(MPI.COMM_SELF, 300, 2), STUDENT)
x, direction = pairs.layout.random_normal(1), pairs.layout.random_normal(2)
found = [pairs.product(x, direction), pairs.convex_product(x, direction)]
print(*(hashlib.sha256(array.tobytes()).hexdigest() for array in found))
"""


@pytest.mark.slow
def test_compiled_loops_give_the_bits_of_loaded_ones(tmp_path):
    # A body that LLVM optimizes once for the process that compiles it, and once more for the
    # cache, may add in another order the second time.
    environment = {**os.environ, "THALWEG_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    compiled, loaded = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert compiled.stdout == loaded.stdout
