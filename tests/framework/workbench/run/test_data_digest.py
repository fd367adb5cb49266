"""The digest of the data: the same on any number of ranks, at little memory."""

import numpy as np
import pytest

from thalweg.data import Dataset
from thalweg.parallel import MPI
from thalweg.workbench.readers import load_data

POINTS = np.random.default_rng(0).standard_normal((11, 3))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("rows", [0, 1, 2, 11])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_the_digest_does_not_depend_on_the_ranks(comm, rows, kind):
    whole = POINTS[:rows].astype(kind)
    alone = Dataset.from_array(whole, comm=MPI.COMM_SELF).digests["data"]
    assert Dataset.from_array(whole, comm=comm).digests["data"] == alone


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{"scale": "standard"}, {"scale": "unit"}, {"components": 3}])
def test_nor_on_the_bits_of_scaled_data(comm, options):
    section = {"name": "digits", "rows": 100, **options}
    digests = load_data(section, comm).digests
    assert digests == load_data(section, MPI.COMM_SELF).digests
    assert digests != load_data({**section, "sample": True}, comm).digests


@pytest.mark.ranks(1, 2)
def test_every_entry_and_every_place_counts(comm):
    changed = [POINTS, -POINTS, POINTS[::-1], POINTS[:, ::-1], POINTS[:-1], POINTS + 1e-16]
    changed.append(POINTS.copy())
    changed[-1][7, 2] = np.nextafter(changed[-1][7, 2], 1)
    digests = {Dataset.from_array(points, comm=comm).digests["data"] for points in changed}
    different = {points.tobytes() + bytes(points.shape) for points in changed}
    assert len(digests) == len(different)
