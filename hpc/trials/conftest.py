"""Trials: campaigns that attack what thalweg promises, too long for every run of the tests.

Each module is a campaign, named by the first line of its docstring; each item is a case, or
several when it calls ``trial.cases``.  All are marked ``trial``, which the tests leave out:
``scripts/trials`` runs them and records what came out in ``hpc/results/trials.md``.
"""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: The runner of the tests on several ranks, in ``tests/ranks``.
pytest_plugins = ["ranks.collection", "ranks.outcomes", "ranks.fixtures"]

HERE = Path(__file__).parent

#: Exit code that stands for a command which had to be killed.
KILLED = -9


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    # Where trials are left out anyway, their cases need not be made up first.
    return True if "not trial" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.trial)
            item.add_marker(pytest.mark.timeout(1800))


@dataclass
class Trial:
    """What a case tells the table beside whether it passed."""

    item: pytest.Item
    mpirun: Callable[..., subprocess.CompletedProcess[str]]

    def note(self, name: str, value: Any) -> None:
        self.item.user_properties.append((name, value))

    def cases(self, count: int) -> None:
        """This item stands for so many cases (generated sets, say) and not for one."""
        self.note("cases", count)

    def judge(self, done: subprocess.CompletedProcess[str], codes: tuple[int, ...]) -> None:
        """Fail where a command hung, ended with another code, or showed a traceback."""
        shown = f"{done.args}\n{done.stdout}{done.stderr}"
        if done.returncode == KILLED:
            self.note("hang", 1)
            pytest.fail(f"hung: {shown}")
        if "Traceback (most recent call last)" in shown and 1 not in codes:
            self.note("traceback", 1)
            pytest.fail(f"a traceback: {shown}")
        assert done.returncode in codes, shown

    def run(
        self,
        ranks: int,
        command: list[str],
        codes: tuple[int, ...] = (0,),
        seconds: float = 120,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on ranks of its own; it must end in time, with one of these codes.

        A code of 1 in ``codes`` allows a traceback.
        """
        done = self.mpirun(ranks, command, seconds=seconds, **options)
        self.judge(done, codes)
        return done


@pytest.fixture
def trial(request: pytest.FixtureRequest, mpirun: Any) -> Trial:
    """Counts for the table of trials, and commands under a limit."""
    return Trial(request.node, mpirun)
