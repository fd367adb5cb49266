"""KDAC as scikit-learn sees it."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from thalweg_clustering.agreement import normalized_mutual_information
from thalweg_clustering.estimator import EXPECTED_FAILURES, KDAC


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_pass_but_those_that_give_no_clustering():
    outcomes = check_estimator(KDAC(), expected_failed_checks=EXPECTED_FAILURES, on_skip=None)
    failed = {entry["check_name"] for entry in outcomes if entry["status"] == "xfail"}
    assert failed == set(EXPECTED_FAILURES)


def test_fit_finds_the_alternative(views):
    points, given, truth = views(160)
    model = KDAC(n_components=2, sigma=0.4, lambda_=0.3, random_state=0).fit(points, given)
    assert normalized_mutual_information(model.labels_, truth) > 0.95
    assert model.novelty_ < 0.01
    assert 0 < model.quality_ <= 2
    assert model.components_.shape == (2, 4)
    assert model.n_iter_ >= 1
    assert model.transform(points).shape == (160, 2)
    assert not model.degenerate_
    again = KDAC(n_components=2, sigma=0.4, lambda_=0.3, random_state=0).fit(points, given)
    np.testing.assert_array_equal(again.labels_, model.labels_)


def test_labels_may_be_texts_and_scaling_a_pipeline_step(views):
    points, given, truth = views(160)
    scaled = StandardScaler().fit_transform(points * [1, 10, 100, 1])
    model = KDAC(sigma="search").fit(scaled, np.array(["a", "b"])[given])
    assert normalized_mutual_information(model.labels_, truth) > 0.8


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_components": 4}, "components"),
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": "wide"}, "sigma"),
        ({"lambda_": -1.0}, "lambda"),
        ({"init": "best"}, "init"),
        ({"solver": "ims"}, "ism"),
    ],
)
def test_bad_parameters_are_refused(parameters, text, views):
    points, given, _ = views(60)
    with pytest.raises(ValueError, match=text):
        KDAC(**parameters).fit(points, given)


def test_a_clustering_given_is_required(views):
    points, given, _ = views(60)
    with pytest.raises(ValueError, match="requires y"):
        KDAC().fit(points)
    with pytest.raises(ValueError, match="single cluster"):
        KDAC().fit(points, np.zeros(60))
    with pytest.raises(ValueError, match="inconsistent"):
        KDAC().fit(points, given[:-1])
