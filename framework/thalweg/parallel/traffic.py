"""What this rank spends: seconds, messages and bytes by phases of a run; time to compile apart."""

import resource
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mpi4py import MPI


@dataclass
class Phase:
    """Wall time and messages of a phase on this rank, without the phases inside it.

    Counted are messages of thalweg's own engines: the ring, row exchanges, gathered rows, large
    sums.  What PETSc sends by itself stands in ``-log_view`` under the phase's name.
    """

    seconds: float = 0.0
    bytes: int = 0
    messages: int = 0
    calls: int = 0


_phases: dict[str, Phase] = {"other": Phase()}
_stages: dict[str, Any] = {}
_open: list[tuple[str, float]] = [("other", time.perf_counter())]


def count_messages(size: int, number: int = 1) -> None:
    """Count messages that this rank sends, of ``size`` bytes together.  Not collective."""
    now = _phases[_open[-1][0]]
    now.bytes += size
    now.messages += number


@contextmanager
def phase(name: str) -> Iterator[None]:
    """A named part of a run, for its profile and for PETSc's log.  Not collective.

    What happens inside counts for the innermost phase; where PETSc is in use, its log stages have
    the same names, with ``thalweg:`` before them.
    """
    stage = _stages.get(name)
    if stage is None and (petsc := sys.modules.get("thalweg.parallel.petsc")):
        stage = _stages[name] = petsc.PETSc.Log.Stage(f"thalweg:{name}")
    _phases.setdefault(name, Phase()).calls += 1
    _lap()
    _open.append((name, time.perf_counter()))
    if stage is not None:
        stage.push()
    try:
        yield
    finally:
        if stage is not None:
            stage.pop()
        _lap()
        _open.pop()
        _open[-1] = (_open[-1][0], time.perf_counter())


def _lap() -> None:
    """Add the time since the innermost phase was entered or resumed."""
    name, since = _open[-1]
    _phases[name].seconds += time.perf_counter() - since


def phases() -> dict[str, Phase]:
    """Time and messages of all phases until now, on this rank.  Not collective."""
    _lap()
    _open[-1] = (_open[-1][0], time.perf_counter())
    return {name: Phase(**vars(here)) for name, here in _phases.items()}


def profile(comm: MPI.Comm, since: Mapping[str, Phase] | None = None) -> list[dict[str, Any]]:
    """Seconds, messages and bytes of each phase, and memory: an entry for each rank.  Collective.

    ``phases``: name to seconds (without the phases inside), bytes and messages that this rank
    sent, and calls, without those of ``since``.  ``peak_memory``: bytes of the process, until now.
    """
    taken = {}
    for name, now in phases().items():
        then = (since or {}).get(name, Phase())
        took = {key: value - getattr(then, key) for key, value in vars(now).items()}
        if took["calls"] or took["messages"]:
            taken[name] = took
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
    return comm.allgather({"phases": taken, "peak_memory": peak})  # type: ignore[no-any-return]


class CompileTime:
    """Seconds during which threads of this process compile or load kernels, one or several."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._since = self._before = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._threads:
                self._since = time.perf_counter()
            self._threads += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                self._before += time.perf_counter() - self._since

    def rest(self) -> float:
        """The time of the process's clock less these seconds."""
        with self._lock:
            return (self._since if self._threads else time.perf_counter()) - self._before


#: Of all kernels.
COMPILING = CompileTime()

#: Seconds of a clock that stands still while this process compiles or loads kernels: differences of
#: its values are what a method takes where its kernels are compiled.
run_clock = COMPILING.rest
