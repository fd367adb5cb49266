"""How the tests start programs under ``mpirun``, and end them."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Set for the pytest that runs on each rank: the number of ranks, and where outcomes go.
INNER_RANKS = "THALWEG_TEST_RANKS"
INNER_FOLDER = "THALWEG_TEST_FOLDER"

#: Seconds without news after which the ranks of a world are taken to hang.
LIMIT = float(os.environ.get("THALWEG_TEST_SECONDS", "600"))


def mpirun_program() -> str | None:
    """``THALWEG_MPIRUN``, or the launcher beside this Python, or the first on PATH."""
    chosen = os.environ.get("THALWEG_MPIRUN")
    if chosen:
        return chosen
    for name in ("mpirun", "mpiexec"):
        beside = Path(sys.executable).parent / name
        if beside.exists():
            return str(beside)
    return shutil.which("mpirun") or shutil.which("mpiexec")


def mpi_environment() -> dict[str, str]:
    """Environment for ``mpirun``: one thread per rank, any number of ranks, root allowed.

    What an MPI library told this very process is left out: a launcher that
    inherits it takes itself for one of the ranks.
    """
    inherited = ("OMPI_COMM", "OMPI_UNIVERSE", "PMIX_", "PMI_", "HYDI_", "PRTE_LAUNCHED")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(inherited)}
    environment.pop("PYTEST_ADDOPTS", None)
    for threads in ("THALWEG", "OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMBA_NUM"):
        environment[f"{threads}_THREADS"] = "1"
    if idle_ranks():
        environment["LD_PRELOAD"] = idle_ranks() or ""
    environment.update(
        # Open MPI 4, then 5.
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        OMPI_MCA_hwloc_base_binding_policy="none",
        OMPI_MCA_mpi_yield_when_idle="1",
        PRTE_ALLOW_RUN_AS_ROOT="1",
        PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
        PRTE_MCA_hwloc_default_binding_policy="none",
    )
    return environment


@functools.cache
def idle_ranks() -> str | None:
    """Library that lets waiting ranks sleep, compiled where there is a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    folder = Path(__file__).parents[2] / ".pytest_cache"
    folder.mkdir(exist_ok=True)
    library, source = folder / "idle_ranks.so", Path(__file__).with_name("idle_ranks.c")
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        made = library.with_suffix(f".{os.getpid()}")
        command = [compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(made), "-ldl"]
        if subprocess.run(command, capture_output=True).returncode != 0:
            return None
        made.replace(library)
    return str(library)


def run_limited(
    command: list[str], seconds: float, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process group of its own, which is killed at the time limit.

    The return code of a command that ran out of time is -9.
    """
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=options.pop("stderr", subprocess.PIPE), text=True, start_new_session=True, **options,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException as error:
        kill(process)
        out, err = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return subprocess.CompletedProcess(command, -signal.SIGKILL, out, err)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def kill(process: subprocess.Popen[str]) -> None:
    """End a launcher that leads a process group, and its ranks."""
    # mpirun forwards SIGTERM to its ranks, which may run in groups of their own.
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(3)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
