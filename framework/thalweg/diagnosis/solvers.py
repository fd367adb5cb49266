"""PETSc, what it was built with, and SLEPc."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from thalweg.diagnosis.finding import Finding
from thalweg.diagnosis.packages import import_failure

#: PETSc's external packages that thalweg has a use for, and PETSc's names of them over time.
EXTERNAL = {
    "MUMPS": ("mumps",),
    "CHOLMOD": ("cholmod", "suitesparse"),
    "hypre": ("hypre",),
    "PT-Scotch": ("ptscotch",),
    "SuperLU_DIST": ("superlu_dist",),
}


def petsc() -> Iterator[Finding]:
    """PETSc's version, number types and external packages."""
    import numpy as np
    from petsc4py import PETSc

    version = ".".join(map(str, PETSc.Sys.getVersion()))
    scalar, integer = np.dtype(PETSc.ScalarType), np.dtype(PETSc.IntType)
    yield Finding(
        "PETSc",
        f"{version}, scalars {scalar}, indices {integer}",
        *(
            ()
            if scalar == np.float64
            else (
                f"thalweg needs a PETSc of real double precision, not {scalar}",
                "use a PETSc configured with --with-scalar-type=real --with-precision=double",
                True,
            )
        ),
    )
    there = {
        label: any(PETSc.Sys.hasExternalPackage(name) for name in names)
        for label, names in EXTERNAL.items()
    }
    listed = ", ".join(label for label, found in there.items() if found) or "none"
    problem = advice = ""
    if not there["MUMPS"] and not there["SuperLU_DIST"]:
        problem = "without MUMPS, Laplacians are solved by iteration on several ranks"
        advice = "use a PETSc with MUMPS where many directions are needed of one factorization"
    yield Finding("external solvers", listed, problem, advice)


def blas(maps: Path = Path("/proc/self/maps")) -> Iterator[Finding]:
    """Which BLAS PETSc's factorizations run on; NumPy and SciPy bring their own."""
    if not maps.exists():
        return
    loaded = set(re.findall(r"\S*/lib\S*(?:blas|blis|mkl_rt)\S*", maps.read_text()))
    paths = sorted(path for path in loaded if ".libs/" not in path)
    if any(re.search(r"/blas/libblas\.so", path) for path in paths):
        yield Finding(
            "BLAS",
            ", ".join(paths),
            "PETSc runs on the reference BLAS, which makes factorizations several times slower",
            "install an optimized one (Debian and Ubuntu: libopenblas0-pthread)",
        )
    elif paths:
        yield Finding("BLAS", ", ".join(paths))


def slepc() -> Iterator[Finding]:
    """SLEPc, where it is installed, works with this PETSc."""
    if importlib.util.find_spec("slepc4py") is None:
        yield Finding("SLEPc", "not installed; eigenproblems are solved by other means")
        return
    failure = import_failure("slepc4py.SLEPc")
    if failure is not None:
        yield dataclasses.replace(failure, broken=False)
        return
    from slepc4py import SLEPc

    yield Finding("SLEPc", ".".join(map(str, SLEPc.Sys.getVersion())))
