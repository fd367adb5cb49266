"""An embedding that takes more memory than there is, by the plan, is refused."""

import numpy as np
import pytest

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.workbench.plan import plans
from thalweg_embedding import TSNE, memory_estimate
from thalweg_embedding.memory_estimate import memory_per_rank
from thalweg_embedding.objectives import t_sne


def test_an_embedding_that_does_not_fit_is_refused_by_what_the_plan_says(comm, monkeypatch):
    data = Dataset.from_array(np.random.default_rng(0).normal(size=(1200, 3)), comm=comm)
    options = {"name": "t-sne", "perplexity": 7, "neighbor_search": "approximate"}
    section = {"data": {"name": "blobs"}, "objective": options}
    (planned,) = plans(section, comm.size, rows=1200, columns=3)
    arguments = {"perplexity": 7.0, "neighbor_search": "approximate", "start": np.zeros((1200, 2))}
    t_sne(data, comm, **arguments)
    monkeypatch.setattr(memory_estimate, "memory_per_rank", lambda comm: 1e8)
    memory = f"{planned.memory / 2**30:.2f}"
    with pytest.raises(InputError, match=rf"1,200 points .* {memory} GiB.* a rank has 0.09 GiB"):
        t_sne(data, comm, **arguments)


def test_memory_is_shared_by_the_ranks_of_a_machine(comm):
    there = memory_per_rank(comm)
    assert there * comm.size == pytest.approx(memory_per_rank(comm.Split(comm.rank)))


def test_dense_affinities_of_300000_points_are_refused_before_any_is_computed():
    points = np.zeros((300_000, 2), dtype=np.float32)
    with pytest.raises(InputError, match=r"300,000 points .* GiB.* use graph = 'sparse'"):
        TSNE(graph="dense").fit(points)
