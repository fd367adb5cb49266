"""Versions of the parts that a run used."""

from __future__ import annotations

import importlib.metadata
import platform
import sys

from thalweg.parallel import MPI

_PACKAGES = ("thalweg", "numpy", "scipy", "numba", "mpi4py", "petsc4py", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of Python, the MPI library, PETSc if it is in use, and packages that do the work."""
    found = {
        "python": platform.python_version(),
        "mpi": " ".join(
            MPI.Get_library_version().strip("\0 \n").splitlines()[0].split(",")[0].split()
        ),
    }
    if petsc := sys.modules.get("thalweg.parallel.petsc"):
        found["petsc"] = ".".join(map(str, petsc.PETSc.Sys.getVersion()))
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
