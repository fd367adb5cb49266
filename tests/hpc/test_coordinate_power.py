"""The rival of LAPACK for the W-step, as the benchmark measures it."""

import numpy as np
import pytest
from hpc.bench.clustering.coordinate_power import coordinate_power_smallest


@pytest.mark.parametrize("d", [5, 24, 100])
def test_coordinate_power_is_not_deceived_by_its_guess(d):
    for seed in range(4):
        stream = np.random.default_rng(seed)
        q = np.linalg.qr(stream.standard_normal((d, d)))[0]
        values = np.sort(stream.uniform(-1, 1, d))
        values[: 1 + seed % 3] -= 10.0 ** (seed - 1)  # gaps of all sizes
        matrix = (q * values) @ q.T
        for wrong in (q[:, -3:], q[:, 1:4], np.eye(d)[:, :3]):
            found = coordinate_power_smallest(matrix, wrong, 1e-4)
            shortfall = np.trace(found.T @ matrix @ found) - values[:3].sum()
            assert shortfall <= 3 * 2e-4 * np.abs(matrix).sum(axis=1).max()
            np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-10)
