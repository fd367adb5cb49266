"""Versions of the parts that a run used."""

from __future__ import annotations

import importlib.metadata
import platform

from thalweg.parallel import MPI, PETSc

_PACKAGES = ("thalweg", "numpy", "scipy", "numba", "mpi4py", "petsc4py", "scikit-learn")


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
