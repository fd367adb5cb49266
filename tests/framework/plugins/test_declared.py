"""Options declared on the code: derived specs are those that would be written by hand."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import pytest

from thalweg.errors import InputError, PluginError
from thalweg.plugins import Help, Option, SolverSpec, check_parameters, declared_options

if TYPE_CHECKING:
    from nowhere import Preconditioner

Share = Annotated[float, Help("share of the slope", above=0, below=1)]


@dataclass(frozen=True)
class Searching:
    """A base whose subclass changes a default."""

    share: Share = 0.5
    preconditioner: Preconditioner | None = None


@dataclass(frozen=True)
class Descent(Searching):
    """A solver as a plugin writes it."""

    memory: Annotated[int, Help("pairs", minimum=1)] = 10
    share: float = 0.25
    cap: Annotated[float | None, Help("cap", unit="m", above=0)] = 1.0
    rule: Annotated[Literal["wolfe", "armijo"], Help("rule")] = "wolfe"
    sizes: Annotated[Sequence[float] | None, Help("sizes")] = None


def build(dataset, comm, lambda_: Annotated[float, Help("weight", minimum=0)] = 1.0, other=3):
    return lambda_


def by_name(code):
    return {option.name: option for option in declared_options(code)}


def test_a_dataclass_declares_its_options():
    found = by_name(Descent)
    assert list(found) == ["share", "memory", "cap", "rule", "sizes"]
    assert found["memory"] == Option("memory", int, 10, "pairs", minimum=1)
    assert found["cap"] == Option("cap", float, 1.0, "cap", unit="m", above=0, optional=True)
    assert found["rule"].choices == ("wolfe", "armijo")
    assert (found["sizes"].type, found["sizes"].entries) == (list, float)


def test_a_subclass_that_changes_a_default_keeps_the_help():
    share = by_name(Descent)["share"]
    assert (share.default, share.below, share.help) == (0.25, 1, "share of the slope")


def test_a_signature_declares_options_and_an_underscore_is_no_part_of_the_name():
    (option,) = declared_options(functools.partial(build, lambda_=100.0))
    assert (option.name, option.keyword, option.default) == ("lambda", "lambda_", 100.0)


@pytest.mark.parametrize("load", ["nowhere:nothing", "thalweg.errors:nothing", "sys:exit.x"])
def test_code_that_is_missing_is_told_with_its_spec(load):
    with pytest.raises(PluginError, match=r"solver 'x' cannot be loaded from"):
        SolverSpec(name="x", summary="", load=load).declared_options  # noqa: B018


def test_an_option_needs_a_default_that_fits():
    def bare(size: Annotated[int, Help("size")]):
        pass

    def small(size: Annotated[int, Help("size", minimum=1)] = 0):
        pass

    with pytest.raises(TypeError, match="needs a default"):
        declared_options(bare)
    with pytest.raises(TypeError, match="must be at least 1, not 0"):
        declared_options(small)


class Estimator:
    def __init__(self, n_components=2, lambda_=1.0, perplexity=None):
        self.n_components, self.lambda_, self.perplexity = n_components, lambda_, perplexity


OPTIONS = (
    Option("dimensions", int, 2, "columns", minimum=1),
    Option("lambda", float, 1.0, "weight", minimum=0),
    Option("perplexity", float, 30.0, "neighbors", above=1),
    Option("other", int, 3, "not a parameter"),
)
NAMES = {"n_components": "dimensions"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"n_components": 2.5}, "parameter 'n_components' of Estimator must be an integer"),
        ({"n_components": 0}, "parameter 'n_components' of Estimator must be at least 1, not 0"),
        ({"n_components": None}, "must be an integer, not None"),
        ({"lambda_": float("inf")}, "parameter 'lambda_' of Estimator must be finite"),
        ({"perplexity": "many"}, "must be a number, not 'many'"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused_by_its_own_name(given, sentence):
    with pytest.raises(InputError, match=sentence):
        check_parameters(Estimator(**given), OPTIONS, NAMES)
