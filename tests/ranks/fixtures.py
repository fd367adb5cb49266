"""What a test on several ranks asks for: their number, the communicator, a way to start more."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ranks.launch import LIMIT, mpi_environment, mpirun_program, run_limited


@pytest.fixture
def ranks(request: pytest.FixtureRequest) -> int:
    """Number of ranks of a test marked with ``ranks``."""
    return int(request.param)


@pytest.fixture
def comm(request: pytest.FixtureRequest) -> Any:
    """The world communicator; in a test marked with ``ranks``, of that many ranks."""
    from thalweg.parallel import MPI

    marker = request.node.get_closest_marker("ranks")
    if marker is not None:
        assert MPI.COMM_WORLD.size == request.node.callspec.params["ranks"]
    return MPI.COMM_WORLD


@pytest.fixture
def folder(comm: Any, tmp_path: Path) -> Iterator[Path]:
    """An empty folder, that of rank 0 on all ranks, which leave it together."""
    own = tmp_path / "folder"
    own.mkdir()
    yield comm.bcast(own)
    comm.Barrier()


@pytest.fixture(scope="session")
def rank_environment() -> dict[str, str]:
    """Environment for a program that calls ``mpirun`` itself."""
    return mpi_environment()


@pytest.fixture
def mpirun() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command on several ranks: ``mpirun(2, [sys.executable, "x.py"])``.

    Further keywords go to ``subprocess.Popen``; ``env`` adds to the environment.
    """
    program = mpirun_program()
    if program is None:
        pytest.skip("no mpirun found")

    def run(
        ranks: int, command: list[str], seconds: float = LIMIT, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        environment = mpi_environment() | options.pop("env", {})
        launched = [program, "-n", str(ranks), *map(str, command)]
        return run_limited(launched, seconds, env=environment, **options)

    return run
