"""Available memory, so that what cannot fit is refused before it is allocated."""

import math
import resource
from pathlib import Path

from thalweg.errors import InputError
from thalweg.parallel.failures import raise_on_all_ranks
from thalweg.parallel.layout import Layout

#: Limit and use of this process's control group, in its second and its first version.
_CONTROL_GROUPS = tuple(
    (Path("/sys/fs/cgroup", limit), Path("/sys/fs/cgroup", used))
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    )
)


def available_memory() -> float:
    """Bytes that this process may still take: what is free, within its control group and limits."""
    bounds = [_meminfo("MemAvailable")]
    for limit, used in _CONTROL_GROUPS:
        bounds.append(_number(limit) - min(_number(used), 2.0**63))
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        pages = Path("/proc/self/statm")
        taken = int(pages.read_text().split()[0]) * resource.getpagesize() if pages.exists() else 0
        bounds.append(soft - taken)
    return max(0.0, min(bounds))


def require_memory(wanted: float, what: str, advice: str) -> None:
    """Refuse ``wanted`` bytes where this rank has no such memory free.  Not collective.

    ``what``, the subject of the error's sentence, takes them; ``advice`` says what to change.
    """
    free = available_memory()
    if wanted > free:
        raise InputError(f"{what} would take {_gib(wanted)}, but {_gib(free)} are free; {advice}")


def require_vectors(layout: Layout, count: int = 8) -> None:
    """Refuse a variable of which a solver's vectors cannot be indexed or held.  Collective.

    ``count`` vectors are what a solver has at least: iterate, gradient, direction, trial points.
    """
    what = f"the variable of {layout.rows:,} x {layout.columns:,} numbers"
    with raise_on_all_ranks(layout.comm):
        size = 8.0 * count * layout.local_rows * layout.columns
        require_memory(
            size, f"the {count} vectors that a solver keeps of {what}",
            "use fewer rows or columns, or more machines",
        )  # fmt: skip


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"


def _meminfo(name: str) -> float:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith(name + ":"):
                return 1024.0 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    return math.inf


def _number(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # absent, or the word "max"
        return math.inf
