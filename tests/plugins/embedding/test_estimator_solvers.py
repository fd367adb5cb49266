"""The estimators work with every solver that an embedding can be minimized by."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg_embedding import TSNE, ElasticEmbedding

POINTS = np.random.default_rng(0).standard_normal((40, 3))


@pytest.mark.parametrize("kind", [TSNE, ElasticEmbedding])
@pytest.mark.parametrize("solver", ["scipy:CG", "tao:cg", "gradient-descent"])
def test_the_default_preconditioner_goes_only_where_it_has_a_place(kind, solver):
    estimator = kind(perplexity=5, solver=solver, max_iter=5, random_state=0).fit(POINTS)
    assert estimator.trace_["objective"][-1] < estimator.trace_["objective"][0]


def test_the_default_preconditioner_is_the_spectral_direction():
    default, named = (
        TSNE(perplexity=5, max_iter=5, random_state=0, **chosen).fit_transform(POINTS)
        for chosen in ({}, {"preconditioner": "spectral"})
    )
    np.testing.assert_array_equal(default, named)


def test_a_preconditioner_without_a_place_is_refused():
    with pytest.raises(InputError, match="takes no preconditioner"):
        TSNE(perplexity=5, solver="scipy:CG", preconditioner="spectral").fit(POINTS)
