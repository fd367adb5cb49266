"""Mutations of numerical code: a sign, a factor of two, a swapped index must fail some test.

Each case changes one place of a module: it forks this process, puts the changed code into the
functions that are loaded, and runs the tests that call them, the quickest first, until one fails.
What all tests on one rank let pass meets those on two and three ranks, in a copy of the sources.
Places are drawn by a seed; ``THALWEG_MUTATIONS`` says how many of each module.  A change that
keeps the meaning is listed in :data:`HARMLESS`, with the reason.
"""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

#: Places that are changed in each module.
PLACES = int(os.environ.get("THALWEG_MUTATIONS", "1"))

#: Selects the tests on one rank.
ONE_RANK = "not ranks2 and not ranks3 and not ranks4"

#: Folders of numerical code, and the tests that are to notice a change in them.
FAMILIES = {
    "framework/thalweg/parallel": ["tests/framework/parallel"],
    "framework/thalweg/engines": ["tests/framework/engines"],
    "framework/thalweg/numerics": ["tests/framework/numerics"],
    "framework/thalweg/interfaces": ["tests/framework/testing", "tests/framework/interfaces"],
    "plugins/thalweg_descent": ["tests/plugins/descent"],
    "plugins/thalweg_embedding": ["tests/plugins/embedding"],
    "plugins/thalweg_clustering": ["tests/plugins/clustering"],
    "plugins/thalweg_saddlefree": ["tests/plugins/saddlefree"],
    "plugins/thalweg_isometry": ["tests/plugins/isometry"],
}

#: Modules without numbers that a user sees: declarations, pictures, predicted memory, libraries
#: that the tests do without.
LEFT_OUT = {
    "__init__", "plugin", "options", "settings", "pictures", "estimate", "memory_estimate",
    "command", "failures", "watchdog", "traffic", "threads", "kernels", "petsc",
    "row_files", "identity", "jax_objective", "jax_network", "optax",
}  # fmt: skip

#: Changes that keep the meaning: file and changed line, with the reason.
HARMLESS: dict[tuple[str, str], str] = {
    (
        "plugins/thalweg_clustering/ism.py",
        "if shift < 0.002 * float(np.abs(phi).max()):",
    ): "a shift that small changes the speed of the last steps, not where they lead",
    (
        "framework/thalweg/parallel/layout.py",
        "if not _SAFE < square < 2.0 / _SAFE and not math.isnan(square):",
    ): "a norm is right on either side of the bound, which is far from where squares overflow",
    (
        "framework/thalweg/engines/secants/secant_bounds.py",
        "product, sweep, exact = 0.018, 0.5, 60.0 + 0.7 * dimension",
    ): "a measured time, which only says how many directions make the search quickest",
    (
        "plugins/thalweg_saddlefree/minibatches.py",
        "bits = scrambled(scrambled(counters - key) ^ key).view(np.uint8)",
    ): "another stream of random signs, as good",
    (
        "plugins/thalweg_embedding/pairs/grid_pairs.py",
        "seconds = 2e-09 * EXACT_COST * self.layout.rows * float(self.layout.rows)",
    ): "a rough time that a note tells",
    (
        "plugins/thalweg_embedding/eigenmaps/eigen_solver.py",
        "top = 4.0 * float(abs(matrix).sum(axis=1).max()) + 1.0",
    ): "any number above all eigenvalues serves",
    (
        "plugins/thalweg_embedding/pairwise_embedding.py",
        "return x - self.layout.random_normal(0, START_SCALE)",
    ): "random numbers of the opposite sign, as good",
    (
        "plugins/thalweg_clustering/leading_subspace.py",
        "frame = agreed(layout.comm, frame[:, values > 2e-10 * values[0]])",
    ): "any share between rounding and the directions that matter serves",
    (
        "plugins/thalweg_isometry/cutting_planes.py",
        "scan += 100_000 * (60.0 - 0.35 * dimension)",
    ): "a rough time, which only says after how much work on the cuts the others are scanned",
    (
        "plugins/thalweg_embedding/pairs/fixed_field.py",
        "side = 16.0 * self._box.mesh.spacing",
    ): "wider cells of the points of a field change the order of sums alone",
    (
        "plugins/thalweg_embedding/pairs/mesh.py",
        "first = max(0, math.floor(low * scale - shift - 0.5 * taps) - 1)",
    ): "a lower first row of the mesh is one too many, which nothing reaches",
    (
        "plugins/thalweg_saddlefree/hessian_free.py",
        "if value < state.value and value <= state.value + 0.02 * length * min(slope, 0.0):",
    ): "any small share of the predicted decrease serves",
    (
        "plugins/thalweg_saddlefree/networks/objective.py",
        "units = sum(self.network.sizes) - sum(self.network.sizes[1:])",
    ): "an estimate of memory: what is kept changes no number",
    (
        "plugins/thalweg_isometry/hinge.py",
        "low, high = high, 4.0 * high",
    ): "an interval that grows faster holds the same root",
    (
        "plugins/thalweg_isometry/search_state.py",
        "left = 3.0 * max(0.0, iterations - at[-1])",
    ): "a rule of thumb, which only says when an attempt is given up",
    (
        "plugins/thalweg_isometry/baselines.py",
        "weights = np.where(counts, 2.0 / np.where(counts, lengths, 1.0), 0.0)",
    ): "twice a matrix has the same principal directions",
    (
        "plugins/thalweg_isometry/objective.py",
        "floor = 2e-14 * (sizes[rows, None] + other_sizes)",
    ): "any length serves that rounding may give to coinciding points",
}


@dataclass(frozen=True)
class Mutation:
    """A piece of a source file, and what takes its place."""

    file: str
    line: int
    start: int
    end: int
    text: str
    annotates: bool = False

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}:{self.start}"

    def apply(self, source: str) -> str:
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1].encode()
        changed = line[: self.start] + self.text.encode() + line[self.end :]
        lines[self.line - 1] = changed.decode()
        return "".join(lines)

    def changed_line(self) -> str:
        source = (ROOT / self.file).read_text(encoding="utf-8")
        return self.apply(source).splitlines()[self.line - 1].strip()


def numeric_nodes(tree: ast.AST) -> list[tuple[ast.AST, bool]]:
    """Nodes inside functions, without messages and arguments, and whether they annotate."""
    found: list[tuple[ast.AST, bool]] = []

    def visit(node: ast.AST, inside: bool, annotates: bool) -> None:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.arguments):
            return
        if inside:
            found.append((node, annotates))
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    types = annotates or name in ("returns", "annotation")
                    visit(child, inside or isinstance(node, ast.FunctionDef), types)

    visit(tree, False, False)
    return found


def mutations_of(path: Path) -> list[Mutation]:
    """All places of a module where a sign, a factor or two indices can be changed."""
    source = path.read_text(encoding="utf-8")
    lines = [line.encode() for line in source.splitlines()]
    file = str(path.relative_to(ROOT))
    found = []

    def between(left: ast.expr, right: ast.expr, old: bytes, new: str) -> None:
        if left.end_lineno == right.lineno:
            start = lines[right.lineno - 1].find(old, left.end_col_offset, right.col_offset)
            if start >= 0:
                found.append(Mutation(file, right.lineno, start, start + len(old), new))

    for node, annotates in numeric_nodes(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            old, new = (b"+", "-") if isinstance(node.op, ast.Add) else (b"-", "+")
            text = ast.unparse(node)
            if (
                not any(
                    isinstance(n, ast.Constant | ast.List | ast.Tuple | ast.Starred)
                    and not isinstance(getattr(n, "value", None), float)
                    for n in (node.left, node.right)
                )
                and '"' not in text
                and "'" not in text
            ):
                between(node.left, node.right, old, new)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            for side in (node.left, node.right):
                if isinstance(side, ast.Constant) and isinstance(side.value, float):
                    text = f"{2.0 * side.value!r}"
                    place = (side.lineno, side.col_offset, side.end_col_offset or 0)
                    found.append(Mutation(file, *place, text))
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
            text = ast.unparse(node.value)
            if (
                not isinstance(node.value, ast.Constant | ast.List | ast.Tuple)
                and "'" not in text
                and '"' not in text
            ):
                old, new = (b"+=", "-=") if isinstance(node.op, ast.Add) else (b"-=", "+=")
                between(node.target, node.value, old, new)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            if not isinstance(node.operand, ast.Constant):
                place = (node.lineno, node.col_offset, node.col_offset + 1)
                found.append(Mutation(file, *place, "+"))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            indices = node.slice.elts
            if len(indices) == 2 and all(isinstance(index, ast.Name) for index in indices):
                first, second = indices
                if first.lineno == second.end_lineno:
                    text = f"{ast.unparse(second)}, {ast.unparse(first)}"
                    place = (first.lineno, first.col_offset, second.end_col_offset or 0)
                    found.append(Mutation(file, *place, text, annotates))
    return found


@functools.cache
def places() -> dict[str, list[Mutation]]:
    """All places of each module that is not left out."""
    found = {}
    for folder in FAMILIES:
        top = ROOT / folder
        for path in [top] if top.is_file() else sorted(top.rglob("*.py")):
            if path.stem not in LEFT_OUT and (here := mutations_of(path)):
                found[str(path.relative_to(ROOT))] = here
    return found


def chosen() -> list[Mutation]:
    """Some places of each module, the same every time; more hold those that fewer do."""
    cases = []
    for file, here in places().items():
        shuffled = random.Random(file).sample(here, len(here))
        drawn = [mutation for mutation in shuffled if not mutation.annotates][:PLACES]
        cases += sorted(drawn, key=lambda mutation: (mutation.line, mutation.start))
    return cases


# -- code that is changed, and who calls it -----------------------------------------------------

#: Name of a piece of code: its file, name and first line.
Key = tuple[str, str, int]


def key(code: CodeType) -> Key:
    return code.co_filename.removeprefix(f"{ROOT}/"), code.co_name, code.co_firstlineno


def pairs_of_code(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Each piece of code of a module and its successor, the outer before the inner."""
    inner = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new))
    for before, after in zip(*inner, strict=True):
        yield before, after
        yield from pairs_of_code(before, after)


def compiled(mutation: Mutation, file: Path) -> list[tuple[CodeType, CodeType]]:
    """Each piece of code as it is, and as it is changed in this file."""
    path = ROOT / mutation.file
    source = path.read_text(encoding="utf-8")
    changed = compile(mutation.apply(source), str(file), "exec")
    return list(pairs_of_code(compile(source, str(path), "exec"), changed))


def apply_to_loaded(mutation: Mutation, folder: Path) -> None:
    """Change the functions that are loaded, and check that some are."""
    # All code of the module gets a file of its own: kernels are found by what their files hold.
    file = folder / Path(mutation.file).name
    file.write_text(mutation.apply((ROOT / mutation.file).read_text("utf-8")), encoding="utf-8")
    pairs = compiled(mutation, file)
    new = {key(before): (after, before != after) for before, after in pairs}
    done = False
    for thing in gc.get_objects():
        if isinstance(thing, functools._lru_cache_wrapper) and "thalweg" in str(thing.__module__):
            thing.cache_clear()  # of what the code returned before
        if isinstance(thing, FunctionType) and (found := new.get(key(thing.__code__))):
            thing.__code__ = found[0]
            done |= found[1]
    assert done, f"no function that is loaded has {mutation.name}"


def innermost(mutation: Mutation) -> Key:
    """The piece of code that holds the place."""
    return [key(old) for old, new in compiled(mutation, ROOT / mutation.file) if old != new][-1]


class Calls:
    """A plugin for pytest: which test calls which code, and how long it takes."""

    def __init__(self) -> None:
        from thalweg.parallel.kernels import Kernel

        self.tests: dict[str, dict[str, Any]] = {}
        self._fixtures: dict[str, set[Key]] = {}
        self._names: dict[int, set[Key]] = {}
        self._seen: set[int] = set()
        self._kernel = Kernel.__call__.__code__

    def _trace(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        self._seen.add(id(code))
        if id(code) not in self._names:
            ours = code.co_filename.startswith((f"{ROOT}/framework", f"{ROOT}/plugins"))
            self._names[id(code)] = {key(code)} if ours else set()
        if code is self._kernel:
            # Compiled code is not traced.
            kernel = frame.f_locals["self"]
            self._seen.add(id(kernel))
            if id(kernel) not in self._names:
                self._names[id(kernel)] = {key(called.__code__) for called, _ in kernel._called}

    def _taken(self) -> set[Key]:
        seen, self._seen = self._seen, set()
        return set().union(*(self._names[name] for name in seen))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        # All tests that ask for it depend on what it calls, not only the first.
        self._extra |= self._taken()
        try:
            return (yield)
        finally:
            self._fixtures[fixturedef.argname] = self._taken()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        for thing in list(vars(item.module).values()):
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()
        self._extra: set[Key] = set()
        start = time.process_time()
        sys.settrace(self._trace)
        threading.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            calls = self._taken() | self._extra
            for name in item.fixturenames:
                calls |= self._fixtures.get(name, set())
            test = self.tests.setdefault(item.nodeid, {})
            test |= {"seconds": time.process_time() - start, "calls": sorted(calls)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped:
            self.tests.setdefault(report.nodeid, {})["left_out"] = True


class Order:
    """A plugin for pytest: runs some tests in their order, then all others of new files."""

    def __init__(self, tests: list[str], new: list[str]) -> None:
        self.places = {test: place for place, test in enumerate(tests)}
        self.new = new

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.nodeid.partition("::")[0] in self.new:
                self.places.setdefault(item.nodeid, len(self.places))
        items[:] = [item for item in items if item.nodeid in self.places]
        items.sort(key=lambda item: self.places[item.nodeid])


def run_forked(work: Callable[[], int], output: Path, cpu_seconds: int, seconds: float) -> int:
    """Exit code of a function that runs in a child; negative where it was killed at a limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads
        child = os.fork()
    if not child:
        code = 70
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
            descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            for standard in (1, 2):
                os.dup2(descriptor, standard)
            sys.stdout = sys.stderr = os.fdopen(os.dup(1), "w")
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_pytest(files: list[str], plugin: object, *options: str) -> int:
    """Run the tests on one rank in these files, in this process."""
    os.environ["THALWEG_THREADS"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.chdir(ROOT)
    options += ("-q", "--tb=short", "-p", "no:cacheprovider", "-o", "timeout=300", "-k", ONE_RANK)
    code = 0
    # With more than 20 files some tests would run in a process beside this one.
    for start in range(0, len(files), 15):
        found = int(pytest.main([*options, *files[start : start + 15]], plugins=[plugin]))
        if found not in (0, 1, 5) or (found == 1 and "-x" in options):
            return found
        code = max(code, found % 5)
    return code


def digest(*folders: str) -> str:
    """Digest of the Python files in these folders."""
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    files += [ROOT / folder for folder in folders if folder.endswith(".py")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def record(folder: str, kept: Any, scratch: Path) -> dict[str, Any]:
    """What the tests of a family call; recorded once while the sources stay as they are.

    Of files of tests that are new or have changed since, all tests count.
    """
    name, sources = f"thalweg/calls-{folder.replace('/', '-')}", digest("framework", "plugins")
    found = kept.get(name, {})
    if found.get("sources") == sources:
        return dict(found)
    output = scratch / "record.json"

    def work() -> int:
        calls = Calls()
        code = run_pytest(files_of_tests(folder), calls)
        output.write_text(json.dumps(calls.tests))
        return code

    code = run_forked(work, scratch / "record.txt", 7200, 7200.0)
    assert code in (0, 1), (scratch / "record.txt").read_text()[-3000:]
    tests = json.loads(output.read_text())
    files = {file: digest(file) for file in files_of_tests(folder)}
    found = {"sources": sources, "tests": tests, "files": files}
    kept.set(name, found)
    return found


def files_of_tests(folder: str) -> list[str]:
    found = [path for tests in FAMILIES[folder] for path in (ROOT / tests).rglob("test_*.py")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


# -- the campaign -------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def loaded() -> None:
    """All modules that are changed are loaded, and come from this folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file in places():
            module = importlib.import_module(".".join(Path(file).with_suffix("").parts[1:]))
            assert Path(str(module.__file__)).resolve() == ROOT / file


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutated")
    for part in ("framework", "plugins"):
        ignored = shutil.ignore_patterns("__pycache__", "*.png")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    return folder


def noticed_on_ranks(mutation: Mutation, tests: list[str], copy: Path) -> str:
    """A test on two or three ranks that fails with the changed file, or nothing."""
    target = copy / mutation.file
    source = target.read_text(encoding="utf-8")
    target.write_text(mutation.apply(source), encoding="utf-8")
    paths = os.pathsep.join(str(copy / part) for part in ("framework", "plugins"))
    environment = dict(os.environ) | {"PYTHONPATH": paths}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider"]
    command += ["-k", "ranks2 or ranks3", *tests]
    try:
        where = [sys.executable, "-c", "import thalweg.errors as e; print(e.__file__)"]
        seen = subprocess.run(where, env=environment, capture_output=True, text=True)
        assert seen.stdout.startswith(str(copy)), seen
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
        )
    except subprocess.TimeoutExpired:
        return "time limit on ranks"
    finally:
        target.write_text(source, encoding="utf-8")
        shutil.rmtree(target.parent / "__pycache__", ignore_errors=True)
    assert done.returncode in (0, 1, 5), done.stdout[-3000:]
    return "" if done.returncode != 1 else first_failure(done.stdout)


def first_failure(output: str) -> str:
    """The line that names the first test that failed, or else the last line."""
    said = output.splitlines()
    return next((text for text in said if text.startswith(("FAILED", "ERROR"))), said[-1])


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("mutation", [pytest.param(case, id=case.name) for case in chosen()])
def test_a_mutation_is_noticed(
    mutation: Mutation, copy: Path, trial: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    line = mutation.changed_line()
    reason = HARMLESS.get((mutation.file, line))
    note = {"file": mutation.file, "line": mutation.line, "text": line}
    note |= {"outcome": "harmless", "reason": reason}
    note["places"] = sum(not place.annotates for place in places()[mutation.file])
    if reason:
        trial.note("mutation", json.dumps(note))
        pytest.skip(reason)
    folder = next(folder for folder in FAMILIES if mutation.file.startswith(folder))
    found = record(folder, request.config.cache, tmp_path)
    # JSON has made lists of the keys.
    place = list(innermost(mutation))
    new = [file for file in files_of_tests(folder) if digest(file) != found["files"].get(file)]
    passed = {test: said for test, said in found["tests"].items() if not said.get("left_out")}
    tests = [test for test, said in passed.items() if place in said["calls"]]
    if not tests:
        # Compiled code that tests or other compiled code call is not traced.
        reach = {
            test.partition("::")[0]
            for test, said in passed.items()
            if any(called[0] == mutation.file for called in said["calls"])
        }
        tests = [test for test in passed if test.partition("::")[0] in reach]
    tests.sort(key=lambda test: passed[test]["seconds"])
    files = list(dict.fromkeys([*(test.partition("::")[0] for test in tests), *new]))
    limit = 90 + 2 * sum(passed[test]["seconds"] for test in tests) + 60 * len(new)
    output = tmp_path / "output.txt"

    def work() -> int:
        apply_to_loaded(mutation, tmp_path)
        return run_pytest(files, Order(tests, new), "-x")

    code = 0
    if files:
        code = run_forked(work, output, int(limit), 1500.0)
        assert code <= 1, output.read_text()[-3000:]
    by = f"ended by {signal.Signals(-code).name}" if code < 0 else ""
    if code == 1:
        by = first_failure(output.read_text())
    by = by or noticed_on_ranks(mutation, FAMILIES[folder], copy)
    note |= {"outcome": "noticed" if by else "not noticed", "by": by, "tests": len(tests)}
    trial.note("mutation", json.dumps(note))
    print(json.dumps(note))
    assert by, f"no test notices {mutation.file}:{mutation.line}: {line}"
