"""What an embedding of many points does where its user asks for nothing."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.data import Dataset
from thalweg_embedding.objectives import (
    ELASTIC_EMBEDDING,
    MANY_ROWS,
    T_SNE,
    elastic_embedding,
    exaggerated_stages,
    t_sne,
)


def test_only_many_points_under_a_logarithm_are_exaggerated():
    assert exaggerated_stages(T_SNE, MANY_ROWS, None) == (0.25, 1.0)
    assert exaggerated_stages(T_SNE, MANY_ROWS - 1, None) == ()
    assert exaggerated_stages(ELASTIC_EMBEDDING, 10 * MANY_ROWS, None) == ()


@pytest.mark.parametrize(("init", "deviation"), [("random", 0.1), ("pca", 1.0)])
def test_a_large_map_starts_wide_enough_for_its_forces_to_show(comm, init, deviation):
    values = np.random.default_rng(0).standard_normal((MANY_ROWS, 3))
    data = Dataset.from_array(values)
    objective = t_sne(data, comm, perplexity=3.0, graph="sparse", init=init)
    start = objective.initial_point(0)
    deviations = objective.layout.reading(start).std(axis=0)
    assert deviations.max() == pytest.approx(deviation, rel=0.05)
    start.destroy()
    objective.destroy()


def test_an_elastic_embedding_starts_small_however_many_points(comm):
    values = np.random.default_rng(0).standard_normal((MANY_ROWS, 3))
    objective = elastic_embedding(
        Dataset.from_array(values), comm, perplexity=3.0, graph="sparse", repulsion="exact"
    )
    start = objective.initial_point(0)
    assert objective.layout.reading(start).std() == pytest.approx(1e-2, rel=0.05)
    start.destroy()
    objective.destroy()
