"""The MPI library, its launcher, and whether the two belong together."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from thalweg.diagnosis.finding import Finding


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
