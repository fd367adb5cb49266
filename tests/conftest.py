"""Tests that run on several MPI ranks, and what tests share.

A test marked ``@pytest.mark.ranks(1, 2, 3)`` is collected once for each count and
runs on that many ranks: ``tests/ranks`` holds the runner.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["ranks.collection", "ranks.outcomes", "ranks.fixtures"]

#: In names of tests whose parameters need PETSc: a solver, and guides that use it.
USES_PETSC = ("tao:", "engines/README.md", "interfaces/README.md")

HAS_PETSC = True
try:
    import petsc4py  # noqa: F401
except ImportError:
    HAS_PETSC = False
    # They are about PETSc from their first line on.
    collect_ignore = [
        "framework/engines/hessian/test_operators.py",
        "framework/parallel/test_petsc.py",
        "plugins/descent/test_external.py",
    ]

# Threads that wait must not take the cores from the worlds; BLAS spins, so it gets one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Hundreds of processes are started, which would all compile what they import, and JAX networks.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path.home() / ".cache/thalweg/jax"))
os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", "100000000")  # a limit makes it lock
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def pytest_runtest_setup(item: pytest.Item) -> None:
    needs_petsc = item.get_closest_marker("petsc") is not None
    needs_petsc |= any(word in item.name for word in USES_PETSC)
    if needs_petsc and not HAS_PETSC:
        pytest.skip("needs PETSc")


@contextlib.contextmanager
def kept_handlers() -> Iterator[None]:
    """Those of signals from before, put back at the end."""
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def thalweg_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command ``thalweg`` in this process: ``thalweg_command("run", "c.toml")``."""
    from thalweg.workbench.command.main import main

    def call(*arguments: Any, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        argv = [str(argument) for argument in arguments]
        out, err = io.StringIO(), io.StringIO()
        with (
            kept_handlers(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.chdir(folder or "."),
        ):
            try:
                code = main(argv)
            except SystemExit as ending:
                code = ending.code
        return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture(autouse=True)
def signal_handlers() -> Iterator[None]:
    """Those from before a test; commands that run in this process keep theirs to its end."""
    with kept_handlers():
        yield
