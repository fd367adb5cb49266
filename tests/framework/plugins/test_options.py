"""Options, listed or declared on the code: types, bounds, and messages that help."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pytest

from thalweg.errors import InputError, PluginError
from thalweg.plugins import (
    Help,
    ObjectiveSpec,
    Option,
    PreconditionerSpec,
    SolverSpec,
    check_parameters,
    declared_options,
    plugins,
    resolve_options,
)

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


DECLARED = (
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
        check_parameters(Estimator(**given), DECLARED, NAMES)


OPTIONS = (
    Option("perplexity", float, 30.0, "effective neighbors", above=1),
    Option("memory", int, 10, "pairs kept", minimum=1, maximum=100),
    Option("search", str, "wolfe", "line search", choices=("wolfe", "armijo")),
    Option("exact", bool, False, "no approximation"),
    Option("layers", list, None, "sizes", minimum=1),
    Option("file", str, None, "a file"),
    Option("wait", float, None, "time", minimum=0, finite=False),
)


def resolve(**given):
    return resolve_options(OPTIONS, given, "solver 'x'")


def test_defaults_are_filled_in():
    assert resolve() == {
        "perplexity": 30.0, "memory": 10, "search": "wolfe", "exact": False, "layers": None,
        "file": None, "wait": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"perplexty": 3}, "did you mean 'perplexity'"),
        ({"perplexity": 1}, "greater than 1"),
        ({"perplexity": "many"}, "must be a number, not 'many'"),
        ({"perplexity": float("nan")}, "not NaN"),
        ({"memory": 0}, "at least 1"),
        ({"memory": 101}, "at most 100"),
        ({"memory": 2.5}, "must be an integer"),
        ({"memory": True}, "must be an integer"),
        ({"exact": 1}, "must be true or false"),
        ({"search": "armjio"}, "one of wolfe, armijo, not 'armjio'; did you mean 'armijo'"),
        ({"layers": 3}, "must be a list"),
        ({"layers": [4, 0]}, "at least 1"),
        ({"memory": None}, "must be an integer"),
        ({"memory": np.arange(3)}, "must be an integer"),
        ({"memory": 10**30}, "an integer of 64 bits"),
        ({"memory": 10**5000}, "an integer of 64 bits, not an integer of thousands of digits"),
        ({"perplexity": 10**400}, "must be a number"),
        ({"perplexity": float("inf")}, "must be finite, not inf"),
        ({"layers": [1, float("inf")]}, "must be finite"),
        ({"layers": [[1]]}, "must hold numbers"),
        ({"layers": b"ab"}, "must be a list"),
        ({"file": "a\0b"}, "null characters"),
        ({"search": "a\nb" * 100}, "one of wolfe, armijo"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(given, message):
    with pytest.raises(InputError, match=message) as caught:
        resolve(**given)
    assert "\n" not in str(caught.value)
    assert "solver 'x'" in str(caught.value)


@pytest.mark.parametrize(
    "facts", [{"name": 3}, {"type": dict}, {"default": "many"}, {"default": 0}, {"help": None}]
)
def test_a_declaration_that_is_not_consistent_is_a_type_error(facts):
    good = {"name": "size", "type": int, "default": 1, "help": "size", "minimum": 1}
    with pytest.raises(TypeError):
        Option(**{**good, **facts})


def test_the_word_none_switches_off_only_what_may_be():
    rule = Option("decrease", float, 1e-9, "decrease", minimum=0, optional=True)
    assert rule.check("none", "x") is None
    assert rule.check(None, "x") is None
    with pytest.raises(InputError, match="must be a number"):
        Option("decrease", float, 1e-9, "decrease").check("none", "x")
    # A text that is left to the plugin by default may be that word.
    assert Option("labels", str, None, "file").check("none", "x") == "none"
    assert Option("evaluations", int, None, "evaluations").check("none", "x") is None


def beyond(option):
    """Values that the bounds of an option exclude."""
    wrong = [bound - 1 for bound in [option.minimum] if bound is not None]
    wrong += [bound + 1 for bound in [option.maximum] if bound is not None]
    wrong += [bound for bound in (option.above, option.below) if bound is not None]
    wrong += ["no such choice"] if option.choices else []
    return [[value] if option.type is list else value for value in wrong]


@pytest.mark.petsc
@pytest.mark.parametrize("kind", [ObjectiveSpec, PreconditionerSpec, SolverSpec])
def test_no_option_takes_what_its_bounds_exclude(kind):
    checked = 0
    for spec in plugins().specs(kind):
        if spec.name == "jax":
            continue
        code = spec.resolve()
        for option in spec.declared_options:
            for wrong in beyond(option):
                with pytest.raises(InputError, match=f"'{option.name}' of it"):
                    resolve_options(spec.declared_options, {option.name: wrong}, "it")
                if kind is not ObjectiveSpec:
                    with pytest.raises(InputError):
                        code(**{option.keyword: wrong})
                checked += 1
    assert checked > 10
