"""Available memory, so that what cannot fit is refused before it is allocated."""

import itertools
import math
import re
import resource
from collections.abc import Iterator
from pathlib import Path

from thalweg.errors import InputError
from thalweg.parallel.failures import raise_on_all_ranks
from thalweg.parallel.layout import Layout

#: Where control groups lie, and limit and use of one, in their second and their first version.
_GROUPS = "/sys/fs/cgroup"
_LIMITS = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")


def available_memory() -> float:
    """Bytes that this process may still take: what is free, within its control group and limits."""
    free = re.search(r"MemAvailable:\s+(\d+)", _content(Path("/proc/meminfo")))
    bounds = [1024.0 * int(free[1])] if free else [math.inf]
    for folder, pair in itertools.product(_control_groups(), _LIMITS):
        limit, used = (_content(folder / name).strip() for name in pair)
        if limit.isdigit() and used.isdigit():  # not absent, nor the word "max"
            # Pages of files that were read count as used until others want their memory.
            cached = re.findall(r"inactive_file (\d+)", _content(folder / "memory.stat"))
            bounds.append(float(limit) - float(used) + max(map(float, cached), default=0.0))
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


def _control_groups() -> Iterator[Path]:
    """Folders of the groups that this process is in, and of those around them."""
    lines = (line.split(":", 2) for line in _content(Path("/proc/self/cgroup")).splitlines())
    paths = {name: path.strip("/") for _, names, path in lines for name in names.split(",")}
    for name in ("", "memory"):
        own = Path(_GROUPS, name, paths.get(name, ""))  # in a container not there, but its top is
        yield from (own, *own.parents[: len(own.parts) - len(Path(_GROUPS, name).parts)])


def _content(path: Path) -> str:
    """Content of a file of the system, empty where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""
