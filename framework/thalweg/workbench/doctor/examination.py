"""One line after the other on an installation: packages, libraries, cores, plugins."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterable, Iterator

from thalweg.errors import InputError, PluginError, reason
from thalweg.workbench.doctor import libraries
from thalweg.workbench.doctor.libraries import Finding, import_failure

#: Distributions that thalweg cannot do without, in the order shown.
NEEDED = ("numpy", "scipy", "mpi4py", "numba", "scikit-learn", "matplotlib", "pluggy")

#: Distributions that it uses where they are.
OPTIONAL = ("petsc4py", "slepc4py", "pynndescent", "jax")


def examine() -> list[Finding]:
    """All findings on this installation.  Collective if MPI works."""
    findings = list(python_packages())
    usable = True
    for name in ("mpi4py.MPI", *(["petsc4py.PETSc"] if libraries.installed("petsc4py") else [])):
        finding = import_failure(name)
        if finding is not None:
            findings.append(finding)
            usable = False
    if usable:
        for check in (
            libraries.mpi,
            libraries.launcher,
            libraries.mpi_libraries,
            cores,
            libraries.petsc,
            libraries.blas,
            libraries.matrix_products,
            libraries.slepc,
            kernel_cache,
            plugin_code,
        ):
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
        try:
            yield Finding(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            if name not in OPTIONAL:
                yield Finding(name, "", f"{name} is not installed", f"pip install {name}", True)


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
    )
    yield Finding("cores", value)


def kernel_cache() -> Iterator[Finding]:
    """Whether compiled kernels are kept from run to run."""
    from thalweg.parallel.kernels import cache_folder, preferred_cache_folder

    preferred, folder = preferred_cache_folder(), cache_folder()
    problem = advice = ""
    if folder != preferred:
        problem = f"{preferred} cannot be written, so kernels may be compiled again in later runs"
        advice = "set THALWEG_CACHE to a folder that can be"
    yield Finding("kernel cache", str(folder), problem, advice)


def plugin_code() -> Iterator[Finding]:
    """What plugins name and cannot be loaded."""
    from thalweg.plugins import plugins as found
    from thalweg.plugins.specs import KINDS

    for spec in (spec for kind in KINDS for spec in found().specs(kind)):
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
    from thalweg.plugins import plugins as found

    for provider in found().providers:
        yield Finding(f"plugin {provider.name}", f"{provider.distribution} {provider.version}")
    for provider in found().broken:
        value = f"{provider.distribution} {provider.version}"
        advice = f"fix {provider.distribution} or uninstall it"
        problem = f"not loaded: {provider.error}"
        yield Finding(f"plugin {provider.name}", value, problem, advice, True)
