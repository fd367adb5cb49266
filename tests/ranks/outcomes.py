"""The pytest on each rank: it notes outcomes in a file, from which the outer tests take theirs."""

import faulthandler
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from ranks.launch import INNER_FOLDER, INNER_RANKS, LIMIT

#: Seconds that a rank which failed waits for the others to come to the test's end.
TIMEOUT = 5.0


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
        self.file.write(json.dumps({"test": test, "outcome": outcome, "text": text} | more) + "\n")
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
            pause = min(2 * pause, 0.001)
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
