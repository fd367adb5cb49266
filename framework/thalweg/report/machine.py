"""Description of the machine of a measurement: processor, memory, versions; no names or paths."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

from thalweg.parallel import MPI, PETSc

_PACKAGES = ("thalweg", "numpy", "scipy", "numba", "mpi4py", "petsc4py", "scikit-learn")


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
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of Python, PETSc, the MPI library and the packages that do the work."""
    found = {
        "python": platform.python_version(),
        "petsc": ".".join(map(str, PETSc.Sys.getVersion())),
        "mpi": " ".join(
            MPI.Get_library_version().strip("\0 \n").splitlines()[0].split(",")[0].split()
        ),
    }
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


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
