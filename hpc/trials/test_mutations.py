"""Mutations of numerical code: a sign, a factor of two, a swapped index must fail some test.

Each case changes one place of a module in a copy of the sources and runs tests until one fails: the
one that the record says noticed that place before, then the family's on one rank, then the others.
Places and harmless changes are those of ``hpc/trials/mutations.py``.  What the record does not have
comes first, and ``THALWEG_MUTATIONS_SECONDS`` ends the campaign after so long: the next goes on.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hpc.trials.mutations import FAMILIES, HARMLESS, OTHERS, Mutation, chosen, outdated, places  # noqa: E402

#: When the campaign began, and after how many seconds it tries nothing more.
BEGAN, SECONDS = time.monotonic(), float(os.environ.get("THALWEG_MUTATIONS_SECONDS", "inf"))

#: Selects the tests on one rank, and those on others.
RANKS = ("not ranks2 and not ranks3", "ranks2 or ranks3")

#: What the campaign found the last time.
RECORD = ROOT / "hpc" / "results" / "trials.json"


@functools.cache
def recorded() -> list[dict[str, Any]]:
    """The changes that the campaign has tried."""
    campaigns = json.loads(RECORD.read_text(encoding="utf-8"))["campaigns"]
    return list(campaigns.get("mutations", {}).get("mutations", ()))


def new_ones_first() -> list[Mutation]:
    """All changes, first those that the record does not have."""
    known = {(case["file"], case["text"]) for case in recorded()}
    return sorted(chosen(), key=lambda case: (case.file, case.changed_line()) in known)


@functools.cache
def noticed_before() -> dict[tuple[str, str], str]:
    """The test, by file and function, that noticed a changed line of a file the last time."""
    found = {}
    for case in recorded():
        test = str(case.get("by")).removeprefix("FAILED ").partition("[")[0].partition(" ")[0]
        file, _, function = test.partition("::")
        if (ROOT / file).is_file() and f"def {function}(" in (ROOT / file).read_text("utf-8"):
            found[case["file"], case["text"]] = test
    return found


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of the sources, one of which a case changes; the tests import them."""
    folder = tmp_path_factory.mktemp("mutated")
    for part in ("framework", "plugins"):
        ignored = shutil.ignore_patterns("__pycache__", "*.png")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    return folder


def first_failure(tests: list[str], copy: Path, *options: str) -> str:
    """The line that names the first of these tests that fails with the copies, or nothing."""
    paths = os.pathsep.join(str(copy / part) for part in ("framework", "plugins"))
    environment = dict(os.environ) | {"PYTHONPATH": paths}
    environment.pop("PYTEST_ADDOPTS", None)
    where = [sys.executable, "-c", "import thalweg.errors as e; print(e.__file__)"]
    seen = subprocess.run(where, env=environment, capture_output=True, text=True)
    assert seen.stdout.startswith(str(copy)), seen
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider"]
    command += ["-o", "timeout=300", *options, *tests]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500
        )
    except subprocess.TimeoutExpired:
        return "time limit"
    if done.returncode in (0, 5):
        return ""
    said = done.stdout.splitlines() or [f"ended with code {done.returncode}"]
    return next((text for text in said if text.startswith(("FAILED", "ERROR"))), said[-1])


def test_every_mutation_can_be_planted() -> None:
    assert not outdated()


@pytest.mark.parametrize("mutation", [pytest.param(m, id=m.name) for m in new_ones_first()])
def test_a_mutation_is_noticed(mutation: Mutation, copy: Path, trial: Any) -> None:
    if time.monotonic() - BEGAN > SECONDS:
        pytest.skip("no time is left")
    line = mutation.changed_line()
    reason = HARMLESS.get((mutation.file, line))
    note = {"file": mutation.file, "line": mutation.line, "text": line}
    note |= {"outcome": "harmless", "reason": reason}
    note["places"] = sum(not place.annotates for place in places().get(mutation.file, ()))
    if reason:
        trial.note("mutation", json.dumps(note))
        pytest.skip(reason)
    folders = FAMILIES | OTHERS
    family = folders[next(folder for folder in folders if mutation.file.startswith(folder))]
    before = noticed_before().get((mutation.file, line))
    target = copy / mutation.file
    source = target.read_text(encoding="utf-8")
    target.write_text(mutation.apply(source), encoding="utf-8")
    try:
        by = first_failure([before], copy) if before else ""
        for ranks in RANKS:
            by = by or first_failure(family, copy, "-k", ranks)
    finally:
        target.write_text(source, encoding="utf-8")
        shutil.rmtree(target.parent / "__pycache__", ignore_errors=True)
    note |= {"outcome": "noticed" if by else "not noticed", "by": by}
    trial.note("mutation", json.dumps(note))
    print(json.dumps(note))
    assert by, f"no test notices {mutation.file}:{mutation.line}: {line}"
