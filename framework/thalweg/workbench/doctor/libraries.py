"""MPI and its launcher, PETSc, BLAS and SLEPc, and whether they fit together."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: PETSc's external packages that thalweg has a use for, and PETSc's names of them over time.
EXTERNAL = {
    "MUMPS": ("mumps",),
    "CHOLMOD": ("cholmod", "suitesparse"),
    "hypre": ("hypre",),
    "PT-Scotch": ("ptscotch",),
    "SuperLU_DIST": ("superlu_dist",),
}


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes
    ----------
    name, value
        Subject of the finding, and the result.
    problem
        What is wrong, empty if nothing is; a sentence.
    advice
        How to fix it.
    broken
        Whether the problem stops thalweg from working, or is only worth knowing.
    """

    name: str
    value: str
    problem: str = ""
    advice: str = ""
    broken: bool = False


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
        problem = f"{package} cannot be imported ({reason})"
        advice = "load the modules that it was built with, or run scripts/setup"
        if package == "mpi4py":
            advice = "load the module of an MPI, or pip install 'mpich>=4'"
        elif "numpy" in str(error).lower() or "_ARRAY_API" in str(error):
            other = "numpy<2" if numpy.__version__.startswith("2") else "numpy>=2"
            problem = (
                f"{package} was compiled for another NumPy than {numpy.__version__} ({reason})"
            )
            advice = f"pip install '{other}', or run scripts/setup, which keeps the two together"
        return Finding(name, "", problem, advice, True)
    return None


def installed(package: str) -> bool:
    """Whether a package can be found."""
    return importlib.util.find_spec(package) is not None


def mpi() -> Iterator[Finding]:
    """The MPI library."""
    from mpi4py import MPI

    # MPICH ends its version with a null character and many lines on how it was built.
    text = MPI.Get_library_version().strip("\0 \n")
    first = re.split(r"[,\n]", text)[0]
    yield Finding("MPI", " ".join(first.split()))


def launcher() -> Iterator[Finding]:
    """Whether ``mpirun`` is there, and belongs to the MPI library in use."""
    from mpi4py import MPI

    vendor, version = MPI.get_vendor()
    path = find_mpirun()
    if path is None:
        yield Finding(
            "mpirun",
            "",
            "mpirun is not on PATH, so runs are limited to one rank",
            f"put the one of {vendor} on PATH (a cluster's own launcher, as srun, will do too)",
        )
        return
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    family, major = launcher_family(answer.stdout + answer.stderr)
    shown = f"{path} ({family or 'of an unknown MPI'}{f' {major}' if major else ''})"
    same = family in (None, vendor) or (vendor, family) == ("MPICH", "Intel MPI")  # one interface
    if family == vendor == "Open MPI":
        same = major in ("", str(version[0]))
    problem = advice = ""
    if not same:
        problem = (
            f"mpirun belongs to {family} {major}, but mpi4py to {vendor} {version[0]}: "
            "it would start ranks that do not see each other"
        )
        advice = f"put the mpirun of {vendor} {version[0]} first on PATH"
    elif family == "Open MPI" and os.getuid() == 0 and not _root_allowed():
        problem = "Open MPI refuses to start ranks as root by default"
        advice = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
    yield Finding("mpirun", shown, problem, advice, not same)


def find_mpirun() -> str | None:
    """The ``mpirun`` beside this Python, or else the first on ``PATH``."""
    here = Path(sys.executable).parent
    return shutil.which("mpirun", path=f"{here}{os.pathsep}{os.environ.get('PATH', '')}")


def launcher_family(text: str) -> tuple[str | None, str]:
    """MPI and major version that ``mpirun --version`` reports, as mpi4py names it."""
    for pattern, family in (
        (r"\(Open MPI\) (\d+)", "Open MPI"),
        (r"Open MPI v?(\d+)", "Open MPI"),
        (r"Intel\(R\) MPI Library.* Version (\d+)", "Intel MPI"),
        (r"HYDRA[\s\S]*?Version:\s+(\d+)", "MPICH"),
        (r"MVAPICH\D*(\d+)", "MVAPICH"),
    ):
        found = re.search(pattern, text)
        if found:
            return family, found[1]
    return None, ""


def _root_allowed() -> bool:
    names = (f"{owner}_ALLOW_RUN_AS_ROOT" for owner in ("OMPI", "PRTE"))
    return any(os.environ.get(name) and os.environ.get(f"{name}_CONFIRM") for name in names)


def mpi_libraries(maps: Path = Path("/proc/self/maps")) -> Iterator[Finding]:
    """Whether mpi4py and PETSc brought two different MPI libraries into one process."""
    if not maps.exists():
        return
    loaded = set(re.findall(r"\S*/libmpi(?:ch)?[.-]\S*so\S*", maps.read_text()))
    libraries = {os.path.realpath(path) for path in loaded}
    if len(libraries) > 1:
        yield Finding(
            "MPI libraries",
            ", ".join(sorted(libraries)),
            "mpi4py and PETSc are linked to different MPI libraries",
            "build one of them again with the other's mpicc, or run scripts/setup",
            True,
        )


def petsc() -> Iterator[Finding]:
    """PETSc's version, number types and external packages."""
    if not installed("petsc4py"):
        advice = "run scripts/setup, or pip install petsc petsc4py"
        lacking = "factorizations over ranks, TAO's solvers and SLEPc's need PETSc"
        yield Finding("PETSc", "not installed", lacking, advice)
        return
    import numpy as np
    from petsc4py import PETSc

    version = ".".join(map(str, PETSc.Sys.getVersion()))
    scalar, integer = np.dtype(PETSc.ScalarType), np.dtype(PETSc.IntType)
    problem = advice = ""
    if scalar != np.float64:
        problem = f"thalweg needs a PETSc of real double precision, not {scalar}"
        advice = "use a PETSc configured with --with-scalar-type=real --with-precision=double"
    value = f"{version}, scalars {scalar}, indices {integer}"
    yield Finding("PETSc", value, problem, advice, bool(problem))
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
    if not maps.exists() or not installed("petsc4py"):
        return
    loaded = set(re.findall(r"\S*/lib\S*(?:blas|blis|mkl_rt)\S*", maps.read_text()))
    paths = sorted(path for path in loaded if ".libs/" not in path)
    problem = advice = ""
    if any(re.search(r"/blas/libblas\.so", path) for path in paths):
        problem = (
            "PETSc runs on the reference BLAS, which makes factorizations several times slower"
        )
        advice = "install an optimized one (Debian and Ubuntu: libopenblas0-pthread)"
    if paths:
        yield Finding("BLAS", ", ".join(paths), problem, advice)


def matrix_products(cpuinfo: Path = Path("/proc/cpuinfo")) -> Iterator[Finding]:
    """For which processors the loaded OpenBLAS libraries chose their kernels.

    They take a processor that they do not know for an older one, without AVX-512.
    """
    import numpy  # noqa: F401  # libraries that are asked below
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    found = [each for each in threadpool_info() if each["internal_api"] == "openblas"]
    chosen = {library["architecture"] for library in found}
    problem = advice = ""
    newer = cpuinfo.exists() and "avx512dq" in cpuinfo.read_text()
    if newer and chosen & {"Haswell", "Zen", "Sandybridge"}:
        problem = "the processor has AVX-512, at which they run up to twice as fast"
        advice = "export OPENBLAS_CORETYPE=SkylakeX"
    if chosen:
        value = f"OpenBLAS for {', '.join(sorted(chosen))}"
        yield Finding("matrix products", value, problem, advice)


def slepc() -> Iterator[Finding]:
    """SLEPc, where it is installed, works with this PETSc."""
    if not installed("slepc4py"):
        yield Finding("SLEPc", "not installed; eigenproblems are solved by other means")
        return
    failure = import_failure("slepc4py.SLEPc")
    if failure is not None:
        yield dataclasses.replace(failure, broken=False)
        return
    from slepc4py import SLEPc

    yield Finding("SLEPc", ".".join(map(str, SLEPc.Sys.getVersion())))
