"""Principal components agree with NumPy on the whole array, at any number of ranks."""

import numpy as np
import pytest

from thalweg.numerics import principal
from thalweg.numerics.principal import principal_components
from thalweg.parallel import Layout


def rows(count, columns):
    random = np.random.default_rng(1)
    return random.standard_normal((count, columns)) * np.arange(1, columns + 1) + 100


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("way", ["covariance", "inner products", "subspace"])
def test_principal_components_are_those_of_the_whole(comm, monkeypatch, way):
    whole = rows(40, 50)
    limit = {"covariance": 50, "inner products": 45, "subspace": 5}[way]
    monkeypatch.setattr(principal, "EXACT_SIZE", limit)
    layout = Layout(comm, *whole.shape)
    found = layout.gather_rows(principal_components(layout.local(whole), layout, 3))
    centered = whole - whole.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    wanted = left[:, :3] * sizes[:3]
    signs = np.sign((found * wanted).sum(axis=0))
    assert np.allclose(found * signs, wanted, atol=1e-5 * sizes[0])


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_as_many_components_as_rows_end_with_one_that_is_zero(comm, monkeypatch, kind):
    monkeypatch.setattr(principal, "EXACT_SIZE", 8)
    whole = rows(5, 500).astype(kind)
    layout = Layout(comm, *whole.shape)
    found = layout.gather_rows(principal_components(layout.local(whole), layout, 5))
    sizes = np.linalg.svd(whole - whole.mean(axis=0))[1]
    wanted = pytest.approx(sizes, abs=100 * np.finfo(kind).eps * sizes[0])
    assert np.linalg.norm(found, axis=0) == wanted
