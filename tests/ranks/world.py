"""The tests that want the same number of ranks, under one ``mpirun``, seen from outside.

Time limits are kept outside ``mpirun``, and a rank that fails while the others wait
for it in a collective call brings them down; what was not run yet is started anew.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from ranks.launch import INNER_FOLDER, INNER_RANKS, LIMIT, kill, mpi_environment, mpirun_program


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
                command, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
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
                    self._take(test, merged(entries, f"{ending}\n{output}", folder), entries)
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
