"""Each part of the core imports only the layers below it, and plugins only the public core."""

import ast
import functools
import importlib
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "framework" / "thalweg"
PLUGINS = ROOT / "plugins"

#: From the bottom up.  Plugins build on all but the last, the workbench.
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["thalweg"]["layers"]
PUBLIC = set(LAYERS) - {"workbench"}

#: What an engine builds on, beside its own room.
BELOW_ENGINES = {"errors", "lazy", "parallel", "numerics", "capability"}

#: What packages import that import their names at first use.
LAZY = "thalweg.lazy"

MESSAGE_PASSING = {"mpi4py", "petsc4py"}

#: These look at the libraries themselves, also where the parallel layer cannot be imported.
WITHOUT_PETSC = {CORE / "workbench" / "doctor.py", CORE / "workbench" / "command"}


@dataclass(frozen=True)
class Import:
    """One imported name; ``deferred`` if it happens inside a function."""

    path: Path
    line: int
    module: str
    name: str
    deferred: bool

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.module} {self.name}".rstrip()

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_below(node: ast.AST, path: Path, package: str, deferred: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(path, child.lineno, alias.name, "", deferred)
        elif isinstance(child, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - child.level + 1] if child.level else []
            module = ".".join([*base, *([child.module] if child.module else [])])
            for alias in child.names:
                yield Import(path, child.lineno, module, alias.name, deferred)
        elif is_for_type_checkers(child):
            for other in child.orelse:
                yield from imports_below(other, path, package, deferred)
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports_below(child, path, package, deferred or function)


@functools.cache
def imports_of(path: Path, top: Path) -> list[Import]:
    package = ".".join(path.parent.relative_to(top).parts)
    return list(imports_below(ast.parse(path.read_text()), path, package, deferred=False))


def imports_under(folder: Path, top: Path) -> list[Import]:
    return [found for path in sorted(folder.rglob("*.py")) for found in imports_of(path, top)]


def core_layer(found: Import) -> str | None:
    """Layer of the core that an import reaches into, if it does."""
    if found.package != "thalweg":
        return None
    if "." in found.module:
        return found.module.split(".")[1]
    return found.name if found.name in LAYERS else ""


def is_of_a_command(found: Import) -> bool:
    """Whether a function reads data or prints JSON as the command line does, for a subcommand."""
    own = "thalweg.workbench.readers", "thalweg.workbench.strict_json"
    return found.deferred and found.module.startswith(own)


def own_packages() -> list[str]:
    return sorted(path.name for path in PLUGINS.iterdir() if (path / "__init__.py").exists())


def test_every_part_of_the_core_has_its_layer():
    parts = {path.stem for path in CORE.iterdir() if path.suffix == ".py"}
    parts |= {path.parent.name for path in CORE.glob("*/__init__.py")}
    assert parts - {"__init__", "__main__"} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_those_below_it(layer):
    allowed = set(LAYERS[: LAYERS.index(layer) + 1])
    folder, file, top = CORE / layer, CORE / f"{layer}.py", CORE.parent
    found = imports_under(folder, top) if folder.is_dir() else imports_of(file, top)
    # The version, which the top package knows, is no layer's.
    wrong = [
        str(one)
        for one in found
        if core_layer(one) is not None
        and core_layer(one) not in allowed
        and (one.module, one.name) != ("thalweg", "__version__")
    ]
    assert wrong == []


@pytest.mark.parametrize("room", sorted(path.name for path in (CORE / "engines").glob("*/")))
def test_an_engine_imports_the_floor_and_its_own_room(room):
    own = f"thalweg.engines.{room}"
    wrong = [
        str(one)
        for one in imports_under(CORE / "engines" / room, CORE.parent)
        if core_layer(one) is not None
        and core_layer(one) not in BELOW_ENGINES
        and not one.module.startswith(own)
    ]
    assert wrong == []


def test_the_core_imports_no_plugin():
    packages = set(own_packages())
    assert [str(one) for one in imports_under(CORE, CORE.parent) if one.package in packages] == []


def test_only_the_parallel_layer_imports_mpi_and_petsc():
    found = imports_under(CORE, CORE.parent) + imports_under(PLUGINS, PLUGINS)
    wrong = [
        str(one)
        for one in found
        if one.package in MESSAGE_PASSING
        and CORE / "parallel" not in one.path.parents
        and not (WITHOUT_PETSC & {one.path, *one.path.parents} and one.deferred)
    ]
    assert wrong == []
    petsc = {one.path.name for one in found if one.package == "petsc4py"}
    assert petsc == {"petsc.py", "doctor.py"}
    # SLEPc need not be there: only a function that was asked for it imports it.
    assert [str(one) for one in found if one.package == "slepc4py" and not one.deferred] == []


@functools.cache
def exported(module: str) -> set[str]:
    """Names in ``__all__`` of a module of the core, empty where it has none."""
    path = CORE.parent.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


@pytest.mark.parametrize("package", own_packages())
def test_a_plugin_imports_promised_names_of_the_core_and_no_other_plugin(package):
    others = set(own_packages()) - {package}
    for one in imports_under(PLUGINS / package, PLUGINS):
        assert one.package not in others, one
        if one.package == "thalweg" and not is_of_a_command(one):
            assert core_layer(one) in PUBLIC | {""}, one
            assert not any(part.startswith("_") for part in one.module.split(".")), one
            assert not one.name or one.name in exported(one.module), one


@pytest.mark.parametrize("package", own_packages())
def test_a_plugin_is_listed_without_importing_anything_heavy(package):
    light = {"__future__", "thalweg", *sys.stdlib_module_names}
    for one in imports_of(PLUGINS / package / "plugin.py", PLUGINS):
        if not one.deferred:
            assert one.package in light, one
            assert one.package != "thalweg" or one.module == "thalweg.plugins", one
    for one in imports_of(PLUGINS / package / "__init__.py", PLUGINS):
        # Importing plugin.py runs the package's own file first.
        assert one.deferred or one.package in light - {"thalweg"} or one.module == LAZY, one


def dotted(path: Path, top: Path) -> str:
    """Name of the module in a file."""
    return ".".join(path.relative_to(top).with_suffix("").parts).removesuffix(".__init__")


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """Names along a circle of arrows, or nothing."""
    done: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in done:
            for other in sorted(arrows.get(name, ())):
                if found := search(other, [*path, name]):
                    return found
        done.add(name)
        return []

    return next((found for name in sorted(arrows) if (found := search(name, []))), [])


@pytest.mark.parametrize("package", own_packages())
def test_no_circle_of_imports_in_a_plugin_even_inside_functions(package):
    names = {dotted(path, PLUGINS) for path in (PLUGINS / package).rglob("*.py")}
    arrows: dict[str, set[str]] = {}
    for one in imports_under(PLUGINS / package, PLUGINS):
        whole = f"{one.module}.{one.name}"
        found = {whole if whole in names else one.module} & names
        arrows.setdefault(dotted(one.path, PLUGINS), set()).update(found)
    assert circle(arrows) == []


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c", "d"}, "c": {"d"}}) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"d", "b"}}) == ["b", "c", "b"]


@pytest.mark.petsc
@pytest.mark.parametrize("package", ["thalweg", "thalweg.parallel", *own_packages()])
def test_every_promised_name_is_there_and_shown(package):
    module = importlib.import_module(package)
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_the_parser_sees_what_it_must(tmp_path):
    path = tmp_path / "thalweg" / "driver" / "loop.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from thalweg.workbench.command import main\n"
        "from ..data import dataset\n"
        "from thalweg import plugins\n"
        "def late():\n    import thalweg.workbench.run, mpi4py.MPI\n"
    )
    found = [(core_layer(one), one.package, one.deferred) for one in imports_of(path, tmp_path)]
    assert found == [
        (None, "typing", False),
        ("data", "thalweg", False),
        ("plugins", "thalweg", False),
        ("workbench", "thalweg", True),
        (None, "mpi4py", True),
    ]
