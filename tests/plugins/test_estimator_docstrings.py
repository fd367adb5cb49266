"""The docstring of every estimator: each parameter once, and an example that runs."""

import doctest
import importlib
import inspect
import re

import pytest
from sklearn.base import BaseEstimator

PACKAGES = ("thalweg_embedding", "thalweg_clustering", "thalweg_isometry")


def estimators():
    for name in PACKAGES:
        package = importlib.import_module(name)
        for exported in package.__all__:
            item = getattr(package, exported)
            if isinstance(item, type) and issubclass(item, BaseEstimator):
                yield item


ESTIMATORS = list(estimators())


def documented(cls, title):
    section = re.search(rf"^{title}\n-+\n(.*?)(?=\n\w+\n-+\n|\Z)", inspect.getdoc(cls), re.M | re.S)
    heads = re.findall(r"^(\S.*?)(?: : .*)?$", section.group(1), re.MULTILINE)
    return [name for head in heads for name in head.split(", ")]


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_each_parameter_is_documented_once(cls):
    assert sorted(documented(cls, "Parameters")) == sorted(inspect.signature(cls).parameters)
    attributes = documented(cls, "Attributes")
    assert all(name.endswith("_") for name in attributes)
    assert len(set(attributes)) == len(attributes)


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_the_example_runs(cls):
    parser, names = doctest.DocTestParser(), {cls.__name__: cls}
    test = parser.get_doctest(inspect.getdoc(cls), names, cls.__name__, None, 0)
    assert test.examples
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert result.failed == 0


def test_parameters_of_other_programs_are_refused_with_a_hint():
    from thalweg_embedding import TSNE

    with pytest.raises(TypeError, match="no parameter 'learning_rate'; a line search finds"):
        TSNE(learning_rate=200)
    with pytest.raises(TypeError, match="no parameter 'perplexty'; did you mean 'perplexity'"):
        TSNE(perplexty=20)
