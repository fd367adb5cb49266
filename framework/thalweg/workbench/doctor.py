"""Versions of an installation, and what is wrong with it: one finding after the other.

The checks examine the libraries themselves, and so work where the rest of thalweg
cannot be imported.
"""

import contextlib
import dataclasses
import importlib
import importlib.metadata
import io
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from thalweg.errors import InputError, PluginError, reason

#: Distributions that thalweg cannot do without, in the order shown.
NEEDED = ("numpy", "scipy", "mpi4py", "numba", "scikit-learn", "pluggy")

#: Distributions that it uses where they are.
OPTIONAL = ("petsc4py", "slepc4py", "matplotlib", "tqdm", "h5py", "pyarrow", "pynndescent", "jax")

#: Distributions whose versions a result states.
RECORDED = ("thalweg", "numpy", "scipy", "numba", "mpi4py", "petsc4py", "scikit-learn")

#: PETSc's external packages that thalweg has a use for.
EXTERNAL = ("MUMPS", "CHOLMOD", "SuiteSparse", "hypre", "PTScotch", "SuperLU_DIST")


@dataclass(frozen=True)
class Finding:
    """One line of the report: a subject and its value; what is wrong, if anything, and its cure.

    ``broken``: the problem stops thalweg from working, and is not only worth knowing.
    """

    name: str
    value: str
    problem: str = ""
    advice: str = ""
    broken: bool = False


def versions() -> dict[str, str]:
    """Versions of Python, the MPI library, PETSc if it is in use, and packages that do the work."""
    in_use = {"python": platform.python_version(), "mpi": _mpi_version()}
    if petsc := sys.modules.get("thalweg.parallel.petsc"):
        in_use["petsc"] = ".".join(map(str, petsc.PETSc.Sys.getVersion()))
    return in_use | {name: known for name in RECORDED if (known := _version(name))}


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _mpi_version() -> str:
    from mpi4py import MPI

    # MPICH ends its version with a null character and many lines on how it was built.
    return " ".join(re.split(r"[,\n]", MPI.Get_library_version().strip("\0 \n"))[0].split())


def examine() -> list[Finding]:
    """All findings on this installation.  Collective if MPI works."""
    names = ["mpi4py.MPI", *(["petsc4py.PETSc"] if find_spec("petsc4py") else [])]
    failures = [failure for name in names if (failure := import_failure(name))]
    findings = [*python_packages(), *failures]
    if not failures:
        libraries = launcher, mpi_libraries, cores, petsc, matrix_products, slepc
        for check in (*libraries, kernel_cache, plugin_code):
            findings += _guarded(check)
    return findings + _guarded(plugins)


def _guarded(check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    # An unforeseen failure of a check is a finding as well.
    try:
        return list(check())
    except Exception as error:
        return [Finding(check.__name__.replace("_", " "), "", reason(error), broken=True)]


def python_packages() -> Iterator[Finding]:
    """Versions of Python and of the packages, and those that are missing."""
    yield Finding("Python", f"{sys.version.split()[0]} ({sys.executable})")
    for name in ("thalweg", *NEEDED, *OPTIONAL):
        if version := _version(name):
            yield Finding(name, version)
        elif name not in OPTIONAL:
            yield Finding(name, "", f"{name} is not installed", f"pip install {name}", True)


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
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        problem = f"{package} cannot be imported ({why})"
        advice = "load the modules that it was built with, or run scripts/setup"
        if package == "mpi4py":
            advice = "load the module of an MPI, or pip install 'mpich>=4'"
        elif "numpy" in str(error).lower() or "_ARRAY_API" in str(error):
            other = "numpy<2" if numpy.__version__.startswith("2") else "numpy>=2"
            problem = f"{package} was compiled for another NumPy than {numpy.__version__} ({why})"
            advice = f"pip install '{other}', or run scripts/setup, which keeps the two together"
        return Finding(name, "", problem, advice, True)
    return None


def launcher() -> Iterator[Finding]:
    """The MPI library, and whether ``mpirun`` is there and starts ranks that see each other."""
    from mpi4py import MPI

    yield Finding("MPI", _mpi_version())
    path, problem, advice, alone = find_mpirun(), "", "", False
    if path is None:
        problem = "mpirun is not on PATH, so runs are limited to one rank"
        advice = (
            f"put the one of {MPI.get_vendor()[0]} on PATH (a cluster's own launcher, as srun, "
            "will do too)"
        )
    elif MPI.COMM_WORLD.size == 1:
        code = "import os, mpi4py.MPI as M; os.write(1, b'of %d ranks ' % M.COMM_WORLD.size)"
        # What MPI has set for this process is not for its children.
        answer = subprocess.run(
            [path, "-n", "2", sys.executable, "-c", code], env=dict(os.environ),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        counts = re.findall(r"of (\d+) ranks", answer.stdout)  # in any order, on any line
        if alone := "1" in counts:
            problem = "mpirun is another MPI's than mpi4py: its ranks do not see each other"
            advice = "put that of mpi4py's MPI first on PATH"
        elif counts != ["2", "2"]:
            lines = [line for line in answer.stderr.splitlines() if re.search(r"\w", line)]
            problem = f"mpirun did not start two ranks: {' '.join(lines[:2]) or 'it says nothing'}"
            advice = f"see what '{path} -n 2 hostname' says"
    yield Finding("mpirun", path or "", problem, advice, alone)


def find_mpirun() -> str | None:
    """The ``mpirun`` beside this Python, or else the first on ``PATH``."""
    here = Path(sys.executable).parent
    return shutil.which("mpirun", path=f"{here}{os.pathsep}{os.environ.get('PATH', '')}")


def mpi_libraries(maps: Path = Path("/proc/self/maps")) -> Iterator[Finding]:
    """Whether mpi4py and PETSc brought two different MPI libraries into one process."""
    if not maps.exists():
        return
    loaded = set(re.findall(r"\S*/libmpi(?:ch)?[.-]\S*so\S*", maps.read_text()))
    libraries = {os.path.realpath(path) for path in loaded}
    if len(libraries) > 1:
        problem = "mpi4py and PETSc are linked to different MPI libraries"
        advice = "build one of them again with the other's mpicc, or run scripts/setup"
        yield Finding("MPI libraries", ", ".join(sorted(libraries)), problem, advice, True)


def petsc() -> Iterator[Finding]:
    """PETSc's version, number types and external packages."""
    if not find_spec("petsc4py"):
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
    there = [name for name in EXTERNAL if PETSc.Sys.hasExternalPackage(name.lower())]
    problem = advice = ""
    if not {"MUMPS", "SuperLU_DIST"} & {*there}:
        problem = "without MUMPS, Laplacians are solved by iteration on several ranks"
        advice = "use a PETSc with MUMPS where many directions are needed of one factorization"
    yield Finding("external solvers", ", ".join(there) or "none", problem, advice)


def matrix_products(cpuinfo: Path = Path("/proc/cpuinfo")) -> Iterator[Finding]:
    """For which processors the loaded OpenBLAS libraries chose their kernels.

    They take a processor that they do not know for an older one, without AVX-512.
    """
    import numpy  # noqa: F401  # libraries that are asked below
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    loaded = threadpool_info()
    chosen = {each["architecture"] for each in loaded if each["internal_api"] == "openblas"}
    problem = advice = ""
    newer = cpuinfo.exists() and "avx512dq" in cpuinfo.read_text()
    if newer and chosen & {"Haswell", "Zen", "Sandybridge"}:
        problem = "the processor has AVX-512, at which they run up to twice as fast"
        advice = "export OPENBLAS_CORETYPE=SkylakeX"
    if chosen:
        value = f"OpenBLAS for {', '.join(sorted(chosen))}"
        yield Finding("matrix products", value, problem, advice)


def slepc() -> Iterator[Finding]:
    """SLEPc, where it is installed and cannot be loaded beside this PETSc."""
    if find_spec("slepc4py") and (failure := import_failure("slepc4py.SLEPc")):
        yield dataclasses.replace(failure, broken=False)


def cores() -> Iterator[Finding]:
    """Cores and threads of each rank of this run."""
    from mpi4py import MPI

    from thalweg.parallel.threads import cpu_quota, threads_per_rank, usable_cores

    threads = MPI.COMM_WORLD.allgather(threads_per_rank(MPI.COMM_WORLD))
    mine = len(usable_cores())
    quota = cpu_quota()
    limit = f", worth {quota:g} by quota" if quota < mine else ""
    each = str(threads[0]) if len(set(threads)) == 1 else f"{min(threads)} to {max(threads)}"
    value = (
        f"{mine} of {os.cpu_count()} cores for this rank{limit}; "
        f"ranks {len(threads)}, threads per rank {each}"
        + ("; one rank per core is quickest, as memory allows" if max(threads) > 1 else "")
    )
    yield Finding("cores", value)


def kernel_cache() -> Iterator[Finding]:
    """Whether compiled kernels are kept from run to run."""
    from thalweg.parallel.kernels import cache_folder, preferred_cache_folder

    preferred, folder = preferred_cache_folder(), cache_folder()
    problem = f"{preferred} cannot be written, so kernels may be compiled again in later runs"
    advice = "set THALWEG_CACHE to a folder that can be"
    if folder == preferred:
        problem = advice = ""
    yield Finding("kernel cache", str(folder), problem, advice)


def plugin_code() -> Iterator[Finding]:
    """What plugins name and cannot be loaded."""
    from thalweg.plugins import plugins as known
    from thalweg.plugins.specs import KINDS

    for spec in (spec for kind in KINDS for spec in known().specs(kind)):
        try:
            spec.resolve()
            spec.declared_options  # noqa: B018
        except PluginError as error:
            advice = "fix its plugin or uninstall it"
            if lacking := isinstance(error.__cause__, InputError):  # it says what it needs
                advice = "install that, where it is wanted"
            yield Finding(spec.owner, "", str(error), advice, not lacking)


def plugins() -> Iterator[Finding]:
    """Plugins, and why some are broken."""
    from thalweg.plugins import plugins as known

    for provider in (*known().providers, *known().broken):
        problem = f"not loaded: {provider.error}" if provider.error else ""
        advice = f"fix {provider.distribution} or uninstall it" if problem else ""
        value = f"{provider.distribution} {provider.version}"
        yield Finding(f"plugin {provider.name}", value, problem, advice, bool(problem))
