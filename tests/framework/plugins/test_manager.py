"""The plugin manager: one broken plugin does no harm, and collisions name both sides."""

import importlib.metadata
import sys
import types
from unittest.mock import Mock

import pytest

from thalweg.errors import InputError, PluginError
from thalweg.plugins import (
    ObjectiveSpec,
    Plugins,
    Provider,
    SolverSpec,
    citation,
    hookimpl,
    manager,
)


def solver(name, **facts):
    return SolverSpec(name=name, summary="", load="nowhere:nothing", **facts)


def module(**hooks):
    made = types.ModuleType("made_up")
    for name, answer in hooks.items():
        setattr(made, name, hookimpl(answering(answer)))
    return made


def answering(answer):
    # pluggy reads argument names: an implementation may leave all of them out.
    return lambda: answer


@pytest.fixture
def found():
    return Plugins(only=[])


def provider(name):
    return Provider(name, f"dist-{name}", "1")


def test_two_providers_of_a_name_are_both_named(found):
    found.register(module(thalweg_solvers=[solver("newton")]), provider("one"))
    found.register(module(thalweg_solvers=[solver("newton"), solver("other")]), provider("two"))
    assert [spec.name for spec in found.specs(SolverSpec)] == ["other"]
    with pytest.raises(PluginError, match=r"'newton'.*dist-one.*dist-two"):
        found.find(SolverSpec, "newton")


def test_a_misspelled_hook_is_refused(found):
    with pytest.raises(TypeError, match="thalweg_solverz"):
        found.register(module(thalweg_solverz=[]), provider("one"))


def test_a_module_that_is_no_package_has_no_references():
    alone = SolverSpec(name="newton", summary="", load="typing:Any")  # Python 3.11 raises TypeError
    assert citation([alone]) == citation([])


def test_a_family_is_found_by_its_variant(found):
    found.register(module(thalweg_solvers=[solver("tao", variant="type")]), provider("one"))
    assert found.find(SolverSpec, "tao:nls")[1] == {"type": "nls"}


class _Entry:
    """An entry point that fails to import, or one of a given distribution."""

    group = "thalweg"

    def __init__(self, name, distribution, error=None, value="m"):
        self.name, self.value, self.error = name, value, error
        self.dist = types.SimpleNamespace(name=distribution, version="2")

    def load(self):
        if self.error is not None:
            raise self.error
        return module(thalweg_solvers=[solver(self.name)])


def with_entries(monkeypatch, *entries):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: list(entries))
    return manager.Plugins()


class Panic(BaseException):
    """What extensions in Rust raise."""


ERRORS = [SystemExit(3), SystemExit("no"), RecursionError("deep"), Panic("at\nonce")]


@pytest.mark.parametrize("error", [*ERRORS, ImportError("no libfoo")])
@pytest.mark.parametrize("where", ["import", "hook"])
def test_a_plugin_that_fails_or_exits_leaves_the_rest_working(monkeypatch, error, where):
    bad = _Entry("bad", "dist-bad", error)
    if where == "hook":
        made = module()

        @hookimpl
        def thalweg_solvers():
            raise error

        made.thalweg_solvers = thalweg_solvers
        bad.load = lambda: made
    found = with_entries(monkeypatch, bad, _Entry("good", "dist-good"))
    assert found.find(SolverSpec, "good")
    assert found.broken[0].distribution == "dist-bad"
    text = " ".join(str(error).split())
    with pytest.raises(InputError, match=f"dist-bad.*{text}"):
        found.find(SolverSpec, "missing")
    assert found.broken[0].error == f"{type(error).__name__}: {text}"


def test_ctrl_c_is_no_failure_of_the_plugin_that_it_meets(monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        with_entries(monkeypatch, _Entry("bad", "dist-bad", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        resolved_from_code_that_raises(monkeypatch, KeyboardInterrupt())


def resolved_from_code_that_raises(monkeypatch, error):
    lazy = types.ModuleType("lazy")
    lazy.__getattr__ = Mock(side_effect=error)
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    SolverSpec(name="x", summary="", load="lazy:build").resolve()


@pytest.mark.parametrize("error", ERRORS)
def test_code_that_exits_when_it_is_loaded_is_an_error_of_its_plugin(monkeypatch, error):
    with pytest.raises(PluginError, match=type(error).__name__):
        resolved_from_code_that_raises(monkeypatch, error)


@pytest.mark.parametrize("thing", [3, None, "text", [], solver("x")])
def test_an_entry_point_that_is_no_module_is_broken(monkeypatch, thing):
    bad = _Entry("bad", "dist-bad")
    bad.load = lambda: thing
    assert "a plugin is a module, not" in with_entries(monkeypatch, bad).broken[0].error


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (3, "not a list"),
        ("text", "not a list"),
        ([3], "not of type SolverSpec"),
        ([None], "not of type SolverSpec"),
    ],
)
def test_a_hook_that_returns_other_than_specs_leaves_the_rest_working(found, answer, reason):
    with pytest.raises(TypeError, match=reason):
        found.register(module(thalweg_solvers=answer), provider("bad"))
    found.register(module(thalweg_solvers=[solver("good")]), provider("good"))
    assert [spec.name for spec in found.specs(SolverSpec)] == ["good"]


@pytest.mark.parametrize(
    "facts",
    [{"name": 3}, {"name": ""}, {"summary": None}, {"load": 3}, {"load": "no colon"},
     {"options": [1]}, {"options": (1,)}],
)  # fmt: skip
def test_a_spec_with_fields_of_wrong_types_is_a_type_error(facts):
    with pytest.raises(TypeError):
        SolverSpec(**{"name": "x", "summary": "", "load": "a:b", **facts})


def test_a_name_of_two_distributions_is_refused_where_it_is_used(monkeypatch):
    one, two = _Entry("one", "dist-one"), _Entry("two", "dist-two")
    two.load = lambda: module(thalweg_solvers=[solver("one"), solver("two")])
    found = with_entries(monkeypatch, _Entry("good", "dist-good"), one, two)
    assert found.find(SolverSpec, "good")
    assert {broken.distribution for broken in found.broken} == {"dist-one", "dist-two"}
    with pytest.raises(PluginError, match=r"'one' is provided twice.*dist-one.*dist-two"):
        found.find(SolverSpec, "one")


def test_the_environment_restricts_what_is_loaded(monkeypatch):
    monkeypatch.setenv("THALWEG_PLUGINS", "descent")
    found = Plugins()
    assert (found.specs(ObjectiveSpec), [p.name for p in found.providers]) == ([], ["descent"])
