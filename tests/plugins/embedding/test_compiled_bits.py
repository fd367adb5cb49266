"""A process that compiles the loops over pairs gets the bits of those that load them."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import hashlib

import numpy as np

import thalweg
from thalweg_embedding import T_SNE, embedding

rows = np.random.default_rng(0).normal(size=(300, 5))
objective = embedding(T_SNE, thalweg.Dataset.from_array(rows), perplexity=10.0, repulsion="exact")
x, direction = objective.layout.random_normal(1), objective.layout.random_normal(2)
found = [
    objective.hessian_product(x, direction),
    objective.repulsive_product(x, direction),
]
print(*(hashlib.sha256(array.tobytes()).hexdigest() for array in found))
"""


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
