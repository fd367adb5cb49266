"""Every objective is told from the same objective of other data, and found again on other ranks."""

from typing import Any

import numpy as np
import pytest

import thalweg
from thalweg.data import Dataset
from thalweg.driver import Checkpoints
from thalweg.driver.assembly import objective_identity
from thalweg.errors import CheckpointError
from thalweg.parallel import MPI
from thalweg.plugins import ObjectiveSpec, plugins

#: Options without which an objective of these data is refused.
OPTIONS: dict[str, dict[str, Any]] = {
    "autoencoder": {}, "elastic-embedding": {}, "kdac": {"clusters": 2}, "laplacian-eigenmaps": {},
    "largevis": {}, "lle": {}, "localmap": {"n_neighbors": 4}, "mlp": {}, "near-isometry": {},
    "neg-t-sne": {}, "pacmap": {"n_neighbors": 4}, "s-sne": {}, "sne": {}, "t-ee": {}, "t-sne": {},
    "umap": {},
}  # fmt: skip


def points(seed=0, rows=40):
    return np.random.default_rng(seed).normal(size=(rows, 6))


def data(comm, rows, labels=None):
    labels = np.arange(len(rows)) % 3 if labels is None else labels
    return Dataset.from_array(rows, labels, comm=comm)


def built(name, dataset, **options):
    spec, fixed = plugins().find(ObjectiveSpec, name)
    objective = spec.build(dataset, dataset.comm, options={**OPTIONS[name], **fixed, **options})
    found = objective_identity(objective)
    assert not any("cannot be digested" in note for note in objective.notes)
    return found


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("name", OPTIONS)
def test_an_objective_is_told_from_that_of_other_data(comm, name):
    rows = points()
    mine = built(name, data(comm, rows))
    assert mine == built(name, data(MPI.COMM_SELF, rows))
    for other in (points(1), np.roll(rows, 1, axis=0), rows + 0.01 * points(2)):
        found = built(name, data(comm, other, np.roll(np.arange(40) % 3, 1)))
        changed = [key for key in mine if found[key] != mine[key]]
        assert any(str(mine[key]).startswith("data ") for key in changed), found


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("kdac", {"links": True}),
        ("kdac", {"init": "random"}),
        ("kdac", {"offset": 2.0, "kernel": "polynomial"}),
        ("kdac", {"seed": 1, "approximation": "nystrom"}),
        ("near-isometry", {"secants": "within-class"}),
        ("near-isometry", {"delta": 0.3}),
        ("mlp", {"activation": "relu"}),
        ("umap", {"min_dist": 0.5}),
        ("pacmap", {"seed": 1}),
    ],
)
def test_an_objective_is_told_from_one_of_another_option(tmp_path, name, change):
    base = {"approximation": "nystrom"} if "seed" in change and name == "kdac" else {}
    if "kernel" in change:
        base = {**change, "offset": 1.0}
    if "links" in change:
        np.savetxt(tmp_path / "links.csv", [[0, 1, 1], [2, 3, -1]], fmt="%d", delimiter=",")
        change = {"links": str(tmp_path / "links.csv")}
        base, change = {"task": "semi-supervised"}, {"task": "semi-supervised", **change}
    dataset = data(MPI.COMM_SELF, points())
    assert built(name, dataset, **base) != built(name, dataset, **change)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("name", ["kdac", "lle", "mlp", "near-isometry", "t-sne"])
def test_a_run_goes_on_on_other_ranks_and_not_on_other_data(comm, name, folder):
    spec, fixed = plugins().find(ObjectiveSpec, name)

    def minimized(comm, rows, **rules):
        objective = spec.build(data(comm, rows), comm, options={**OPTIONS[name], **fixed})
        return thalweg.minimize(objective, checkpoint=folder, **rules)

    if comm.rank == 0:
        minimized(MPI.COMM_SELF, points(), iterations=2)
    comm.Barrier()
    with pytest.raises(CheckpointError, match="data differ"):
        minimized(comm, points(1), iterations=3, resume=True)
    before = comm.bcast(Checkpoints(folder).latest_name() if comm.rank == 0 else None)
    assert minimized(comm, points(), iterations=3, resume=True).iterations >= int(before)
