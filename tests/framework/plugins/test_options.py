"""Options: types, bounds, and messages that help."""

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg.plugins import (
    ObjectiveSpec,
    Option,
    PreconditionerSpec,
    SolverSpec,
    plugins,
    resolve_options,
)

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
        "perplexity": 30.0,
        "memory": 10,
        "search": "wolfe",
        "exact": False,
        "layers": None,
        "file": None,
        "wait": None,
    }


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
