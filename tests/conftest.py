"""Tests that run on several MPI ranks.

A test marked ``@pytest.mark.ranks(1, 2, 3)`` is collected once for each count.  On
one rank it runs right here.  For more, all selected tests of a module that want the
same count run together under one ``mpirun``, in a pytest on every rank; each rank
notes its outcomes in a file of its own, from which the outer tests take theirs.

Time limits are kept outside ``mpirun``, and a rank that fails while the others wait
for it in a collective call brings them down; what was not run yet is started anew.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

#: Set for the pytest that runs on each rank: the number of ranks, and where outcomes go.
INNER_RANKS = "THALWEG_TEST_RANKS"
INNER_FOLDER = "THALWEG_TEST_FOLDER"

#: Seconds that one mpirun may take.
LIMIT = float(os.environ.get("THALWEG_TEST_SECONDS", "240"))

#: Seconds that a rank which failed waits for the others to come to the test's end.
TIMEOUT = 5.0


# -- launching ---------------------------------------------------------------------------------


def mpirun_program() -> str | None:
    """``THALWEG_MPIRUN``, or the launcher beside this Python, or the first on PATH."""
    chosen = os.environ.get("THALWEG_MPIRUN")
    if chosen:
        return chosen
    for name in ("mpirun", "mpiexec"):
        beside = Path(sys.executable).parent / name
        if beside.exists():
            return str(beside)
    return shutil.which("mpirun") or shutil.which("mpiexec")


def mpi_environment() -> dict[str, str]:
    """Environment for ``mpirun``: one thread a rank, any number of ranks, root allowed.

    What an MPI library told this very process is left out: a launcher that
    inherits it takes itself for one of the ranks.
    """
    inherited = ("OMPI_COMM", "OMPI_UNIVERSE", "PMIX_", "PMI_", "HYDI_", "PRTE_LAUNCHED")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(inherited)}
    environment.pop("PYTEST_ADDOPTS", None)
    for threads in ("THALWEG", "OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMBA_NUM"):
        environment[f"{threads}_THREADS"] = "1"
    environment.update(
        # Open MPI 4, then 5.
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        OMPI_MCA_hwloc_base_binding_policy="none",
        OMPI_MCA_mpi_yield_when_idle="1",
        PRTE_ALLOW_RUN_AS_ROOT="1",
        PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
        PRTE_MCA_hwloc_default_binding_policy="none",
    )
    return environment


def run_limited(
    command: list[str], seconds: float, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process group of its own, which is killed at the time limit.

    The return code of a command that ran out of time is -9.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=options.pop("stderr", subprocess.PIPE),
        text=True,
        start_new_session=True,
        **options,
    )
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # mpirun forwards SIGTERM to its ranks, which may run in groups of their own.
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(3)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return subprocess.CompletedProcess(command, -signal.SIGKILL, out, err)
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


# -- one module's tests on several ranks, seen from outside ------------------------------------


class Batch:
    """The selected tests of one module that want the same number of ranks."""

    def __init__(self, root: Path, ranks: int) -> None:
        self.root = root
        self.ranks = ranks
        self.tests: list[str] = []
        self._outcomes: dict[str, tuple[str, str]] = {}

    def outcome(self, test: str) -> tuple[str, str]:
        """``("passed" | "failed" | "skipped" | "xfailed", text)`` of a test."""
        if not self._outcomes:
            self._run()
        return self._outcomes[test]

    def _run(self) -> None:
        program = mpirun_program()
        if program is None:
            self._rest("failed", "no mpirun found; install an MPI launcher or set THALWEG_MPIRUN")
            return
        deadline = time.monotonic() + LIMIT
        while waiting := [test for test in self.tests if test not in self._outcomes]:
            with tempfile.TemporaryDirectory(prefix="thalweg-ranks-") as folder:
                environment = mpi_environment()
                environment[INNER_RANKS], environment[INNER_FOLDER] = str(self.ranks), folder
                pytest_on_each = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
                finished = run_limited(
                    [program, "-n", str(self.ranks), *pytest_on_each, *waiting],
                    max(1.0, deadline - time.monotonic()),
                    cwd=self.root,
                    env=environment,
                    stderr=subprocess.STDOUT,
                )
                self._take(Path(folder), waiting, finished)

    def _take(
        self, folder: Path, waiting: list[str], finished: subprocess.CompletedProcess[str]
    ) -> None:
        notes = [read_notes(folder / f"rank-{rank}.jsonl") for rank in range(self.ranks)]
        hung = finished.returncode == -signal.SIGKILL
        ending = (
            f"mpirun was killed after {LIMIT:g} s"
            if hung
            else (f"mpirun ended with code {finished.returncode}")
        )
        progress = False
        for test in waiting:
            entries = [of_rank.get(test) for of_rank in notes]
            if not any(entries):
                continue
            progress = True
            self._outcomes[test] = merged(entries, ending, folder, finished.stdout)
        if hung or not progress:
            self._rest("failed", f"not run: {ending}\n{tail(finished.stdout)}")
        elif finished.returncode not in (0, 1) and all(
            self._outcomes.get(test, ("", ""))[0] != "failed" for test in waiting
        ):
            last = next(test for test in reversed(waiting) if test in self._outcomes)
            text = f"the tests passed, but {ending}\n{tail(finished.stdout)}"
            self._outcomes[last] = ("failed", text)

    def _rest(self, outcome: str, text: str) -> None:
        for test in self.tests:
            self._outcomes.setdefault(test, (outcome, text))


def merged(
    entries: list[dict[str, str] | None], ending: str, folder: Path, output: str
) -> tuple[str, str]:
    """Outcome of a test from what the ranks noted about it."""
    size = len(entries)
    failed = [
        f"--- rank {rank} of {size} ---\n{entry['text']}"
        for rank, entry in enumerate(entries)
        if entry and entry["outcome"] == "failed"
    ]
    if failed:
        return "failed", "\n".join(failed)
    unfinished = [r for r, entry in enumerate(entries) if not entry or entry["outcome"] == "begun"]
    if unfinished:
        text = f"{ending} while this test ran on rank {', '.join(map(str, unfinished))} of {size}"
        for rank in unfinished:
            stacks = folder / f"rank-{rank}.stacks"
            if stacks.exists() and stacks.stat().st_size:
                text += f"\n--- rank {rank} was here ---\n{stacks.read_text()}"
        return "failed", f"{text}\n{tail(output)}"
    outcomes = {entry["outcome"] for entry in entries if entry}
    for kind in ("skipped", "xfailed"):
        if kind in outcomes:
            return kind, next(e["text"] for e in entries if e and e["outcome"] == kind)
    return "passed", ""


def read_notes(path: Path) -> dict[str, dict[str, str]]:
    """Last note on each test that a rank left; a line cut off by its end is dropped."""
    notes: dict[str, dict[str, str]] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                note = json.loads(line)
                notes[note["test"]] = note
    return notes


def tail(output: str, lines: int = 60) -> str:
    return "\n".join(output.splitlines()[-lines:])


class RankedTest(pytest.Item):
    """Stands for a test function that runs elsewhere, on several ranks."""

    batch: Batch
    function: pytest.Function

    def runtest(self) -> None:
        outcome, text = self.batch.outcome(self.nodeid)
        if outcome == "skipped":
            pytest.skip(text)
        if outcome == "xfailed":
            pytest.xfail(text)
        if outcome == "failed":
            raise FailedOnRanks(text)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, FailedOnRanks):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> Any:
        return self.function.reportinfo()


class FailedOnRanks(Exception):
    """Carries the failing ranks' tracebacks."""


# -- collection --------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("ranks")
    if marker is not None:
        if "ranks" not in metafunc.fixturenames:
            metafunc.fixturenames.append("ranks")
        metafunc.parametrize(
            "ranks", marker.args, ids=[f"ranks={count}" for count in marker.args], indirect=True
        )


def pytest_itemcollected(item: pytest.Item) -> None:
    # An expression after -k cannot hold "=": "-k ranks2" selects by the number of ranks.
    if isinstance(item, pytest.Function) and item.get_closest_marker("ranks") is not None:
        item.extra_keyword_matches.add(f"ranks{item.callspec.params['ranks']}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if INNER_RANKS in os.environ:
        return
    batches: dict[tuple[Path, int], Batch] = {}
    for place, item in enumerate(items):
        if not isinstance(item, pytest.Function) or item.get_closest_marker("ranks") is None:
            continue
        ranks = item.callspec.params["ranks"]
        if ranks == 1:
            continue
        batch = batches.setdefault((item.path, ranks), Batch(config.rootpath, ranks))
        stand_in = RankedTest.from_parent(item.parent, name=item.name)
        stand_in.batch, stand_in.function = batch, item
        stand_in.own_markers = [m for m in item.own_markers if m.name not in ("timeout", "xfail")]
        if config.pluginmanager.hasplugin("timeout"):
            stand_in.add_marker(pytest.mark.timeout(0))
        batch.tests.append(stand_in.nodeid)
        items[place] = stand_in


# -- the pytest on each rank -------------------------------------------------------------------


class OutcomeNotes:
    """Notes a rank's outcomes, and keeps the ranks together from test to test."""

    def __init__(self, folder: Path) -> None:
        from mpi4py import MPI

        self.world = MPI.COMM_WORLD
        # Tests talk on the world itself; a message that one left behind must not disturb.
        self.comm = self.world.Dup()
        self.file: TextIO = (folder / f"rank-{self.comm.rank}.jsonl").open("a")
        self.stacks = (folder / f"rank-{self.comm.rank}.stacks").open("w")
        faulthandler.dump_traceback_later(max(1.0, 0.9 * LIMIT), file=self.stacks)
        self.reports: list[pytest.TestReport] = []

    def note(self, test: str, outcome: str, text: str = "") -> None:
        self.file.write(json.dumps({"test": test, "outcome": outcome, "text": text}) + "\n")
        self.file.flush()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.reports = []
        self.note(item.nodeid, "begun")
        result = yield
        outcome, text = self._outcome()
        self.note(item.nodeid, outcome, text)
        self._agree(outcome == "failed")
        return result

    def _outcome(self) -> tuple[str, str]:
        for report in self.reports:
            if report.failed:
                shown = [report.longreprtext, *(f"{n}\n{t}" for n, t in report.sections)]
                return "failed", "\n".join(shown)
        for report in self.reports:
            if report.skipped and hasattr(report, "wasxfail"):
                return "xfailed", report.wasxfail
            if report.skipped:
                reason = report.longrepr
                return "skipped", str(reason[2] if isinstance(reason, tuple) else reason)
        return "passed", ""

    def _agree(self, failed: bool) -> None:
        request = self.comm.Ibarrier()
        deadline = time.monotonic() + TIMEOUT
        pause = 1e-5
        while not request.Test():
            if failed and time.monotonic() > deadline:
                self.world.Abort(1)  # the others wait for this rank inside the test
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        outcomes = self.comm.allgather(failed)
        if any(outcomes) and not all(outcomes):
            self.world.Abort(1)  # messages of the test may be on their way still


def pytest_configure(config: pytest.Config) -> None:
    if INNER_RANKS in os.environ:
        # The time limit is the outer process's.
        if config.pluginmanager.hasplugin("timeout"):
            config.option.timeout = 0
        config.pluginmanager.register(OutcomeNotes(Path(os.environ[INNER_FOLDER])))


# -- fixtures ----------------------------------------------------------------------------------


@pytest.fixture
def ranks(request: pytest.FixtureRequest) -> int:
    """Number of ranks of a test marked with ``ranks``."""
    return int(request.param)


@pytest.fixture
def comm(request: pytest.FixtureRequest) -> Any:
    """The world communicator; in a test marked with ``ranks``, of that many ranks."""
    from thalweg.parallel import MPI

    marker = request.node.get_closest_marker("ranks")
    if marker is not None:
        assert MPI.COMM_WORLD.size == request.node.callspec.params["ranks"]
    return MPI.COMM_WORLD


@pytest.fixture
def mpirun() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command on several ranks: ``mpirun(2, [sys.executable, "x.py"], seconds=60)``.

    Further keywords go to ``subprocess.Popen``; ``env`` adds to the environment.
    """
    program = mpirun_program()
    if program is None:
        pytest.skip("no mpirun found")

    def run(
        ranks: int, command: list[str], seconds: float = 120, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        environment = mpi_environment() | options.pop("env", {})
        launched = [program, "-n", str(ranks), *map(str, command)]
        return run_limited(launched, seconds, env=environment, **options)

    return run
