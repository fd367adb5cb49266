"""Available memory, so that what cannot fit is refused before it is allocated."""

import math
import re
import resource
from pathlib import Path

from thalweg.errors import InputError
from thalweg.parallel.failures import raise_on_all_ranks
from thalweg.parallel.layout import Layout

#: Limit and use of this process's control group, in its second and its first version.
_CONTROL_GROUPS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


def available_memory() -> float:
    """Bytes that this process may still take: what is free, within its control group and limits."""
    free = re.search(r"MemAvailable:\s+(\d+)", _content(Path("/proc/meminfo")))
    bounds = [1024.0 * int(free[1])] if free else [math.inf]
    for pair in _CONTROL_GROUPS:
        limit, used = (_content(Path("/sys/fs/cgroup", name)).strip() for name in pair)
        if limit.isdigit() and used.isdigit():  # not absent, nor the word "max"
            bounds.append(float(limit) - float(used))
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        pages = _content(Path("/proc/self/statm")).split()
        bounds.append(soft - int(pages[0]) * resource.getpagesize() if pages else soft)
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


def _content(path: Path) -> str:
    """Content of a file of the system, empty where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""
