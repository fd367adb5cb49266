"""``thalweg doctor``: what this installation is made of, and what is wrong with it."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thalweg.cli.arguments import Parser
from thalweg.errors import ThalwegError

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
        What was looked at, and what was found.
    problem
        What is wrong, empty if nothing is; a sentence.
    advice
        What to do about it.
    broken
        Whether the problem stops thalweg from working, or is only worth knowing.
    """

    name: str
    value: str
    problem: str = ""
    advice: str = ""
    broken: bool = False


def main(argv: list[str]) -> int:
    """Report on this installation: 0 if all is well, 2 if something is broken.  Collective."""
    parser = Parser(
        prog="thalweg doctor",
        description="Show what this installation is made of, and what is wrong with it. "
        "Under mpirun it shows how the ranks share cores and threads, too.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    findings = examine()
    broken = any(finding.broken for finding in findings)
    if _rank() == 0:
        print(_as_json(findings) if options.json else _as_text(findings))
    return 2 if broken else 0


def examine() -> list[Finding]:
    """All findings on this installation.  Collective if MPI works."""
    findings = list(python_packages())
    usable = True
    for name in ("mpi4py.MPI", "petsc4py.PETSc"):
        finding = import_failure(name)
        if finding is not None:
            findings.append(finding)
            usable = False
    if usable:
        for check in (mpi, launcher, mpi_libraries, cores, petsc, blas, slepc, kernel_cache):
            findings += _guarded(check)
    return findings + _guarded(plugins)


def _guarded(check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    # A doctor that faints helps nobody: an unforeseen failure is a finding as well.
    try:
        return list(check())
    except ThalwegError as error:
        problem = str(error)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return [Finding(check.__name__.replace("_", " "), "", problem, broken=True)]


# -- the checks --------------------------------------------------------------------------------


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
    here = Path(sys.executable).parent
    path = shutil.which("mpirun", path=f"{here}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        yield Finding(
            "mpirun",
            "",
            "mpirun is not on PATH, so runs are limited to one rank",
            f"put the one of {vendor} on PATH (a cluster's own launcher, as srun, will do too)",
        )
        return
    told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    family, major = launcher_family(told.stdout + told.stderr)
    shown = f"{path} ({family or 'of an unknown MPI'}{f' {major}' if major else ''})"
    same = family is None or (
        family == vendor and (vendor != "Open MPI" or major in ("", str(version[0])))
    )
    if vendor == "MPICH" and family == "Intel MPI":  # one binary interface
        same = True
    if not same:
        yield Finding(
            "mpirun",
            shown,
            f"mpirun belongs to {family} {major}, but mpi4py to {vendor} {version[0]}: "
            "it would start ranks that do not see each other",
            f"put the mpirun of {vendor} {version[0]} first on PATH",
            True,
        )
    elif family == "Open MPI" and os.getuid() == 0 and not _root_allowed():
        yield Finding(
            "mpirun",
            shown,
            "Open MPI does not start ranks as root unless told to",
            "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        )
    else:
        yield Finding("mpirun", shown)


def launcher_family(text: str) -> tuple[str | None, str]:
    """MPI and major version that ``mpirun --version`` tells of, as mpi4py names it."""
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
    return any(
        os.environ.get(f"{owner}_ALLOW_RUN_AS_ROOT") and os.environ.get(f"{owner}_{confirm}")
        for owner, confirm in (
            ("OMPI", "ALLOW_RUN_AS_ROOT_CONFIRM"),
            ("PRTE", "ALLOW_RUN_AS_ROOT_CONFIRM"),
        )
    )


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


def cores() -> Iterator[Finding]:
    """How the ranks of this run share the cores."""
    from mpi4py import MPI

    from thalweg.parallel.threads import cpu_quota, threads_per_rank

    threads = MPI.COMM_WORLD.allgather(threads_per_rank(MPI.COMM_WORLD))
    mine = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    limit = f", worth {quota:g} by quota" if quota < mine else ""
    each = str(threads[0]) if len(set(threads)) == 1 else f"{min(threads)} to {max(threads)}"
    value = (
        f"{mine} of {os.cpu_count()} cores for this rank{limit}; "
        f"ranks {len(threads)}, threads a rank {each}"
    )
    yield Finding("cores", value)


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
            "install an optimised one (Debian and Ubuntu: libopenblas0-pthread)",
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


def kernel_cache() -> Iterator[Finding]:
    """Whether compiled kernels are kept from run to run."""
    from thalweg.parallel.kernels import cache_folder, wished_cache_folder

    wished, folder = wished_cache_folder(), cache_folder()
    if folder == wished:
        yield Finding("kernel cache", str(folder))
    else:
        yield Finding(
            "kernel cache",
            str(folder),
            f"{wished} cannot be written, so kernels may be compiled again in later runs",
            "set THALWEG_CACHE to a folder that can be",
        )


def plugins() -> Iterator[Finding]:
    """Plugins, and why some are broken."""
    from thalweg.plugins import plugins as found

    for provider in found().providers:
        yield Finding(f"plugin {provider.name}", f"{provider.distribution} {provider.version}")
    for provider in found().broken:
        yield Finding(
            f"plugin {provider.name}",
            f"{provider.distribution} {provider.version}",
            f"not loaded: {provider.error}",
            f"mend {provider.distribution} or pip uninstall it",
            True,
        )


# -- showing -----------------------------------------------------------------------------------


def _as_text(findings: list[Finding]) -> str:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.name:<{width}}  {finding.value}".rstrip())
        if finding.problem:
            mark = "BROKEN" if finding.broken else "note"
            advice = f" — {finding.advice}" if finding.advice else ""
            lines.append(f"{'':<{width}}  {mark}: {finding.problem}{advice}")
    broken = sum(finding.broken for finding in findings)
    lines.append("all well" if not broken else f"broken: {broken}")
    return "\n".join(lines)


def _as_json(findings: list[Finding]) -> str:
    report: dict[str, Any] = {
        "well": not any(finding.broken for finding in findings),
        "findings": [dataclasses.asdict(finding) for finding in findings],
    }
    return json.dumps(report, indent=2)


def _rank() -> int:
    module = sys.modules.get("mpi4py.MPI")
    return module.COMM_WORLD.rank if module is not None else 0
