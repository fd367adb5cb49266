"""All checks of an installation, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from thalweg.diagnosis import extensions, machine, message_passing, packages, solvers
from thalweg.diagnosis.finding import Finding
from thalweg.errors import ThalwegError


def examine() -> list[Finding]:
    """All findings on this installation.  Collective if MPI works."""
    findings = list(packages.python_packages())
    usable = True
    for name in ("mpi4py.MPI", "petsc4py.PETSc"):
        finding = packages.import_failure(name)
        if finding is not None:
            findings.append(finding)
            usable = False
    if usable:
        for check in (
            message_passing.mpi,
            message_passing.launcher,
            message_passing.mpi_libraries,
            machine.cores,
            solvers.petsc,
            solvers.blas,
            solvers.slepc,
            machine.kernel_cache,
        ):
            findings += _guarded(check)
    return findings + _guarded(extensions.plugins)


def _guarded(check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    # A doctor that faints helps nobody: an unforeseen failure is a finding as well.
    try:
        return list(check())
    except ThalwegError as error:
        problem = str(error)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    return [Finding(check.__name__.replace("_", " "), "", problem, broken=True)]
