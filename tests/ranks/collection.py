"""Which tests run here and which in a world of ranks; a stand-in for each of the latter.

On one rank a test runs right here, or in a process beside this one where there are
many.  For more, all selected tests that want the same count run under one ``mpirun``,
in a pytest on every rank, while this process runs its own tests.
"""

import gc
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ranks.launch import INNER_FOLDER, INNER_RANKS, idle_ranks
from ranks.world import World

gc.disable()  # while what lives to the end is made: to look through it takes a third of the time

#: The worlds of this session.
WORLDS = pytest.StashKey[list[World]]()


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
    # Of the tests on one rank, about half of the work is done in a process beside this one.
    tests = Path(__file__).parents[1]
    rooms = ("plugins", *(f"framework/{n}" for n in ("driver", "engines", "parallel", "testing")))
    beside = {tests / room for room in (*rooms, "test_examples.py")}
    many = len({item.path for item in items}) > 20
    stand_ins: list[RankedTest] = []
    for item in items:
        ranks = getattr(item, "callspec", None) and item.callspec.params.get("ranks")
        if item.get_closest_marker("ranks") is None:
            ranks = 1
        if ranks == 1 and not (many and beside & {item.path, *item.path.parents}):
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
    gc.freeze()
    gc.enable()
    worlds = session.config.stash.get(WORLDS, [])
    if session.config.option.collectonly or not worlds:
        return (yield)

    def run_worlds(chosen: list[World]) -> None:
        for world in chosen:
            world.run()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt  # so that the worlds end with this process

    # Where ranks wait for each other, their cores serve the tests on one rank.  Worlds of several
    # take turns: beside each other they would delay those tests, which then end alone.
    groups = [[w for w in worlds if w.ranks == 1], [w for w in worlds if w.ranks > 1]]
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
