"""Description of the machine of a measurement: processor, memory, versions; no names or paths."""

from __future__ import annotations

import contextlib
import os
import platform
from typing import Any

from thalweg.errors import InputError
from thalweg.parallel.threads import usable_cores
from thalweg.workbench.doctor import versions


def describe_machine() -> dict[str, Any]:
    """Facts that a reader needs to judge a time.

    Returns
    -------
    dict
        ``processor`` (model), ``cores`` (that this process may use), ``memory``
        (GiB), ``system``, and ``versions`` of Python, PETSc, the MPI library and
        the packages that do the work.  Nothing in it names the machine, its
        user or a folder.
    """
    with contextlib.suppress(InputError):  # where there is no PETSc, its version is not told
        import thalweg.parallel.petsc  # noqa: F401

    return {
        "processor": _processor(),
        "cores": len(usable_cores()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            for line in stream:
                if line.lower().startswith(("model name", "cpu model")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> float:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return round(total / 2**30, 1)
