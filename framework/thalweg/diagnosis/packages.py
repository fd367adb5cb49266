"""Python packages: which are there, which are missing, and which cannot be imported."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import sys
from collections.abc import Iterator

from thalweg.diagnosis.finding import Finding

#: Distributions that thalweg cannot do without, in the order shown.
NEEDED = (
    "numpy",
    "scipy",
    "mpi4py",
    "petsc4py",
    "numba",
    "scikit-learn",
    "finufft",
    "matplotlib",
    "pluggy",
)

#: Distributions that it uses where they are.
WELCOME = ("slepc4py", "pynndescent", "jax")


def python_packages() -> Iterator[Finding]:
    """Versions of Python and of the packages, and those that are missing."""
    yield Finding("Python", f"{sys.version.split()[0]} ({sys.executable})")
    for name in ("thalweg", *NEEDED, *WELCOME):
        try:
            yield Finding(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            if name not in WELCOME:
                yield Finding(name, "", f"{name} is not installed", "run scripts/setup", True)


def import_failure(name: str) -> Finding | None:
    """Why a compiled module cannot be imported, if so."""
    try:
        # NumPy explains an ABI mismatch at length on stderr.
        with contextlib.redirect_stderr(io.StringIO()):
            importlib.import_module(name)
            if name.startswith("petsc4py"):
                importlib.import_module("thalweg.parallel.petsc")
    except Exception as error:
        import numpy

        package = name.partition(".")[0]
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        if "numpy" in str(error).lower() or "_ARRAY_API" in str(error):
            other = "numpy<2" if numpy.__version__.startswith("2") else "numpy>=2"
            return Finding(
                name,
                "",
                f"{package} was compiled for another NumPy than {numpy.__version__} ({reason})",
                f"pip install '{other}', or run scripts/setup, which keeps the two together",
                True,
            )
        return Finding(
            name,
            "",
            f"{package} cannot be imported ({reason})",
            "load the modules that it was built with, or run scripts/setup",
            True,
        )
    return None
