"""The estimators follow scikit-learn's contract and report certified facts."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from thalweg import InputError, Status
from thalweg_isometry import FroMax, NearIsometricEmbedding, NILEPro, NuMax, SecantPCA

QUICK = {"limit": 100, "sweep": 25}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        NearIsometricEmbedding(),
        NuMax(solver_options=QUICK),
        FroMax(solver_options=QUICK),
        NILEPro(solver_options=QUICK),
        SecantPCA(),
    ]
)
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [NearIsometricEmbedding, NuMax, FroMax, NILEPro, SecantPCA])
def test_attributes_are_certified(digits, true_delta, estimator):
    points = digits[:24]
    options = {"limit": 400} if estimator in (FroMax, NILEPro) else None
    fitted = estimator(delta=0.4, solver_options=options).fit(points)
    assert fitted.components_.shape == (fitted.rank_, 64)
    assert fitted.delta_ == pytest.approx(true_delta(points, fitted.components_), rel=1e-7)
    assert fitted.delta_ <= 0.4
    assert fitted.status_ is Status.CONVERGED
    assert 1 <= fitted.rank_lower_bound_ <= fitted.rank_
    assert fitted.n_secants_ == 24 * 23 // 2
    assert fitted.transform(points).shape == (24, fitted.rank_)
    np.testing.assert_allclose(fitted.transform(points), points @ fitted.components_.T)


def test_integer_images_are_converted_with_care(digits, true_delta):
    images = (digits[:30] * 16).astype(np.uint8)
    fitted = NearIsometricEmbedding(delta=0.3).fit(images)
    delta = true_delta(images.astype(float), fitted.components_)
    assert fitted.delta_ == pytest.approx(delta, rel=1e-7)


def test_a_rank_can_be_asked_for(digits):
    assert NearIsometricEmbedding(rank=7, solver_options={"precision": 0.2}).fit(
        digits[:30]
    ).components_.shape == (7, 64)


def test_classes_are_taken_from_y(digits):
    labels = np.array(["a", "b"])[np.arange(40) % 2]
    fitted = NearIsometricEmbedding(delta=0.3, secants="within-class").fit(digits[:40], labels)
    assert fitted.n_secants_ == 2 * (20 * 19 // 2)
    with pytest.raises(InputError, match="give y"):
        NearIsometricEmbedding(secants="within-class").fit(digits[:40])


def test_it_works_in_a_pipeline(digits):
    assert make_pipeline(SecantPCA(rank=3)).fit_transform(digits[:20]).shape == (20, 3)
