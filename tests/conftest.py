"""Tests that run on several MPI ranks.

A test marked ``@pytest.mark.ranks(1, 2, 3)`` is collected once for each count.  On
one rank it runs right here, or in a process beside this one where there are many.
For more, all selected tests that want the same count run under one ``mpirun``, in a
pytest on every rank, while this process runs its own tests; each rank notes its
outcomes in a file, from which the outer tests take theirs.

Time limits are kept outside ``mpirun``, and a rank that fails while the others wait
for it in a collective call brings them down; what was not run yet is started anew.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

#: Set for the pytest that runs on each rank: the number of ranks, and where outcomes go.
INNER_RANKS = "THALWEG_TEST_RANKS"
INNER_FOLDER = "THALWEG_TEST_FOLDER"

#: Seconds without news after which the ranks of a world are taken to hang.
LIMIT = float(os.environ.get("THALWEG_TEST_SECONDS", "600"))

# Threads that wait must not take the cores from the worlds; BLAS spins, so it gets one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Hundreds of processes are started, which would all compile what they import.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

#: The worlds of this session.
WORLDS = pytest.StashKey[list[Any]]()

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
    """Environment for ``mpirun``: one thread per rank, any number of ranks, root allowed.

    What an MPI library told this very process is left out: a launcher that
    inherits it takes itself for one of the ranks.
    """
    inherited = ("OMPI_COMM", "OMPI_UNIVERSE", "PMIX_", "PMI_", "HYDI_", "PRTE_LAUNCHED")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(inherited)}
    environment.pop("PYTEST_ADDOPTS", None)
    for threads in ("THALWEG", "OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMBA_NUM"):
        environment[f"{threads}_THREADS"] = "1"
    if idle_ranks():
        environment["LD_PRELOAD"] = idle_ranks() or ""
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


@functools.cache
def idle_ranks() -> str | None:
    """Library that lets waiting ranks sleep, compiled where there is a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    folder = Path(__file__).parents[1] / ".pytest_cache"
    folder.mkdir(exist_ok=True)
    library, source = folder / "idle_ranks.so", Path(__file__).with_name("idle_ranks.c")
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        made = library.with_suffix(f".{os.getpid()}")
        command = [compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(made), "-ldl"]
        if subprocess.run(command, capture_output=True).returncode != 0:
            return None
        made.replace(library)
    return str(library)


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
    except BaseException as error:
        kill(process)
        out, err = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return subprocess.CompletedProcess(command, -signal.SIGKILL, out, err)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def kill(process: subprocess.Popen[str]) -> None:
    """End a launcher that leads a process group, and its ranks."""
    # mpirun forwards SIGTERM to its ranks, which may run in groups of their own.
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(3)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# -- a world: the tests of one number of ranks, seen from outside ------------------------------


class World:
    """The selected tests that want the same number of ranks, under one ``mpirun``.

    It runs beside the tests of this process.  When it ends early, what it did not run is
    started anew.
    """

    def __init__(self, root: Path, ranks: int) -> None:
        self.root = root
        self.ranks = ranks
        self.tests: list[str] = []
        self.seconds: dict[str, float] = {}
        self.properties: dict[str, list[tuple[str, Any]]] = {}
        self._outcomes: dict[str, tuple[str, str]] = {}
        self._news = threading.Condition()
        self._process: subprocess.Popen[str] | None = None
        self._closed = False

    def outcome(self, test: str) -> tuple[str, str]:
        """``("passed" | "failed" | "skipped" | "xfailed", text)`` of a test, once it is known."""
        with self._news:
            self._news.wait_for(lambda: test in self._outcomes)
            return self._outcomes[test]

    def close(self) -> None:
        """End it, whatever it is doing."""
        with self._news:
            self._closed = True
            if self._process is not None:
                kill(self._process)

    def run(self) -> None:
        """Run all tests, in as many launches as it takes."""
        try:
            program = mpirun_program() or ""
            if not program and self.ranks > 1:
                self._rest("no mpirun found; install an MPI launcher or set THALWEG_MPIRUN")
            while not self._closed and (waiting := self._waiting()):
                with tempfile.TemporaryDirectory(prefix="thalweg-ranks-") as folder:
                    self._launch(program, Path(folder), waiting)
        except Exception as error:
            self._rest(f"not run: {error!r}")

    def _waiting(self) -> list[str]:
        return [test for test in self.tests if test not in self._outcomes]

    def _rest(self, text: str) -> None:
        with self._news:
            for test in self._waiting():
                self._outcomes[test] = ("failed", text)
            self._news.notify_all()

    def _launch(self, program: str, folder: Path, waiting: list[str]) -> None:
        (folder / "tests").write_text("\n".join(waiting))
        files = list(dict.fromkeys(test.partition("::")[0] for test in waiting))
        launcher = [program, "-n", str(self.ranks)] if self.ranks > 1 else []
        command = [*launcher, sys.executable, "-m", "pytest", "-q"]
        command += ["-p", "no:cacheprovider", "-m", "", *files]
        environment = mpi_environment()
        environment[INNER_RANKS], environment[INNER_FOLDER] = str(self.ranks), str(folder)
        with self._news, (folder / "output").open("w") as output:
            if self._closed:
                return
            self._process = subprocess.Popen(
                command,
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        notes = [Notes(folder / f"rank-{rank}.jsonl") for rank in range(self.ranks)]
        # How mpirun ends belongs to a test, too: to the last one.
        hung = self._follow(self._process, notes, held=waiting[-1])
        if not self._closed:
            self._judge(folder, notes, waiting, self._process.returncode, hung)

    def _follow(self, process: subprocess.Popen[str], notes: list[Notes], held: str) -> bool:
        """Take outcomes as they come until the launcher ends; whether it had to be killed."""
        patience = time.monotonic() + LIMIT
        ended = False
        while not ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
            ended = process.poll() is not None  # before the notes are read for the last time
            news = {test for of_rank in notes for test in of_rank.read()}
            if news:
                patience = time.monotonic() + LIMIT
            elif not ended and time.monotonic() > patience:
                kill(process)
                return True
            with self._news:
                for test in news - {held}:
                    entries = [of_rank.last.get(test) for of_rank in notes]
                    if all(entry and entry["outcome"] != "begun" for entry in entries):
                        self._take(test, merged(entries), entries)
                self._news.notify_all()
        return False

    def _take(self, test: str, outcome: tuple[str, str], entries: list[Any]) -> None:
        self._outcomes[test] = outcome
        self.seconds[test] = max(entry.get("seconds", 0.0) for entry in entries if entry)
        noted = [entry.get("properties", ()) for entry in entries if entry]
        self.properties[test] = [(name, value) for name, value in noted[0]]

    def _judge(
        self, folder: Path, notes: list[Notes], waiting: list[str], code: int, hung: bool
    ) -> None:
        """Judge the tests that were running when the launcher ended."""
        output = tail((folder / "output").read_text(errors="replace"))
        ending = f"mpirun ended with code {code}"
        if hung:
            ending = f"mpirun was killed, since its ranks hung: no news for {LIMIT:g} s"
        with self._news:
            for test in self._waiting():
                entries = [of_rank.last.get(test) for of_rank in notes]
                if any(entries):
                    text = f"{ending}\n{output}"
                    self._take(test, merged(entries, text, folder), entries)
            outcomes = [self._outcomes.get(test, ("", ""))[0] for test in waiting]
            if not any(outcomes):
                self._rest(f"not run: {ending}\n{output}")
            elif code not in (0, 1) and "failed" not in outcomes:
                blamed = next(iter(self._waiting()), waiting[-1])
                self._outcomes[blamed] = ("failed", f"{ending} between tests\n{output}")
            self._news.notify_all()


class Notes:
    """What one rank noted about its tests: a file that grows, read as it does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last: dict[str, dict[str, Any]] = {}
        self._read = 0

    def read(self) -> list[str]:
        """Names of the tests with news.  A line that is cut off waits for its end."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as stream:
            stream.seek(self._read)
            lines = stream.read().splitlines(keepends=True)
        news = []
        for line in lines:
            if not line.endswith(b"\n"):
                break
            self._read += len(line)
            note = json.loads(line)
            self.last[note["test"]] = note
            news.append(note["test"])
        return news


def merged(
    entries: list[dict[str, Any] | None], ending: str = "", folder: Path | None = None
) -> tuple[str, str]:
    """Outcome of a test from what the ranks noted about it, when ``mpirun`` ended so or goes on."""
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
        where = f"while this test ran on rank {', '.join(map(str, unfinished))} of {size}"
        text = ending.replace("\n", f"\n{where}\n", 1)
        for rank in unfinished:
            stacks = (folder or Path()) / f"rank-{rank}.stacks"
            if stacks.exists() and stacks.stat().st_size:
                text += f"\n--- rank {rank} was here ---\n{stacks.read_text()}"
        return "failed", text
    outcomes = {entry["outcome"] for entry in entries if entry}
    for kind in ("skipped", "xfailed"):
        if kind in outcomes:
            return kind, next(e["text"] for e in entries if e and e["outcome"] == kind)
    return "passed", ""


def tail(output: str, lines: int = 60) -> str:
    return "\n".join(output.splitlines()[-lines:])


class RankedTest(pytest.Item):
    """Stands for a test function that runs elsewhere, on several ranks."""

    world: World
    function: pytest.Function

    def runtest(self) -> None:
        outcome, text = self.world.outcome(self.nodeid)
        self.user_properties += self.world.properties.get(self.nodeid, [])
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


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> list[pytest.Item] | None:
    # Ranks leave out, before it costs time, what wants another number of them.
    count = int(os.environ.get(INNER_RANKS, 1))
    if count == 1 or not name.startswith("test_") or collector.get_closest_marker("ranks"):
        return None
    marks = getattr(obj, "pytestmark", ())
    return None if any(m.name == "ranks" and count in m.args for m in marks) else []


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
        wanted = (Path(os.environ[INNER_FOLDER]) / "tests").read_text().splitlines()
        collected = {item.nodeid: item for item in items}
        items[:] = [collected[test] for test in wanted if test in collected]
        return
    worlds: dict[int, World] = {}
    here: list[pytest.Item] = []
    # Of the tests on one rank, those of the plugins run in a process beside this one.
    beside = Path(__file__).parent / "plugins"
    many = len({item.path for item in items}) > 20
    stand_ins: list[RankedTest] = []
    for item in items:
        ranks = getattr(item, "callspec", None) and item.callspec.params.get("ranks")
        if item.get_closest_marker("ranks") is None:
            ranks = 1
        if ranks == 1 and not (many and beside in item.path.parents):
            here.append(item)
            continue
        world = worlds.setdefault(ranks, World(config.rootpath, ranks))
        stand_in = RankedTest.from_parent(item.parent, name=item.name)
        stand_in.world, stand_in.function = world, item
        stand_in.own_markers = [m for m in item.own_markers if m.name not in ("timeout", "xfail")]
        if config.pluginmanager.hasplugin("timeout"):
            stand_in.add_marker(pytest.mark.timeout(0))
        world.tests.append(stand_in.nodeid)
        stand_ins.append(stand_in)
    # The worlds run while this process is busy with its own tests.
    config.stash[WORLDS] = [worlds[ranks] for ranks in sorted(worlds)]
    items[:] = here + sorted(stand_ins, key=lambda test: test.world.ranks)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    worlds = session.config.stash.get(WORLDS, [])
    if session.config.option.collectonly or not worlds:
        return (yield)

    def run_worlds(chosen: list[World]) -> None:
        for world in chosen:
            world.run()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt  # so that the worlds end with this process

    # Where ranks wait for each other, their cores serve another world; more than two ranks take
    # turns, which keeps the memory of all small.
    groups = [[w for w in worlds if w.ranks == n] for n in (1, 2)]
    groups.append([w for w in worlds if w.ranks > 2])
    threads = [threading.Thread(target=run_worlds, args=(group,)) for group in groups]
    idle_ranks()  # compiled before two threads ask for it
    for thread in threads:
        thread.start()
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        return (yield)
    finally:
        signal.signal(signal.SIGTERM, before)
        for world in worlds:
            world.close()
        for thread in threads:
            thread.join()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    report = yield
    if isinstance(item, RankedTest) and report.when == "call":
        report.duration = item.world.seconds.get(item.nodeid, 0.0)
    return report


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
        self.reports: list[pytest.TestReport] = []
        self.failures = 0

    def note(self, test: str, outcome: str, text: str = "", **more: Any) -> None:
        entry = {"test": test, "outcome": outcome, "text": text} | more
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.reports = []
        self.note(item.nodeid, "begun")
        faulthandler.dump_traceback_later(0.9 * LIMIT, file=self.stacks)
        result = yield
        faulthandler.cancel_dump_traceback_later()
        outcome, text = self._outcome()
        seconds = sum(report.duration for report in self.reports)
        self.note(item.nodeid, outcome, text, seconds=seconds, properties=item.user_properties)
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
        self.failures += any(outcomes)
        if any(outcomes) and not all(outcomes):
            self.world.Abort(1)  # messages of the test may be on their way still

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        if self.failures:
            # PETSc destroys at the end what is left, on all ranks together: a test that failed
            # may have left something on a few.
            from mpi4py import MPI

            sys.stdout.flush()
            sys.stderr.flush()
            self.comm.Barrier()
            MPI.Finalize()
            os._exit(1)


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


@pytest.fixture(scope="session")
def thalweg_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command ``thalweg`` in this process: ``thalweg_command("run", "c.toml")``."""
    from thalweg.workbench.command.main import main

    def call(*arguments: Any, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        argv = [str(argument) for argument in arguments]
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
        handlers = {number: signal.getsignal(number) for number in signals}
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.chdir(folder or "."),
        ):
            try:
                code = main(argv)
            except SystemExit as ending:
                code = ending.code
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture(scope="session")
def rank_environment() -> dict[str, str]:
    """Environment for a program that calls ``mpirun`` itself."""
    return mpi_environment()


@pytest.fixture
def mpirun() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command on several ranks: ``mpirun(2, [sys.executable, "x.py"])``.

    Further keywords go to ``subprocess.Popen``; ``env`` adds to the environment.
    """
    program = mpirun_program()
    if program is None:
        pytest.skip("no mpirun found")

    def run(
        ranks: int, command: list[str], seconds: float = LIMIT, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        environment = mpi_environment() | options.pop("env", {})
        launched = [program, "-n", str(ranks), *map(str, command)]
        return run_limited(launched, seconds, env=environment, **options)

    return run


@pytest.fixture(autouse=True)
def signal_handlers() -> Iterator[None]:
    """Those from before a test; commands that run in this process keep theirs to its end."""
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
