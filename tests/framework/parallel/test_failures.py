"""What one rank alone meets becomes an error on all ranks, or ends the job."""

# ruff: noqa: PT012

import errno
import re
import sys
import textwrap

import numpy as np
import pytest

from thalweg.errors import InputError, NumericalError, RankError
from thalweg.parallel import abort_on_error, on_root, raise_on_all_ranks, shared_seed
from thalweg.parallel.failures import collective_cleanup
from thalweg.parallel.reductions import same_on_all_ranks

ONE_RANK_MEETS = [
    (InputError("bad row 7"), InputError, "bad row 7"),
    (MemoryError("too much"), MemoryError, "too much"),
    (OSError(errno.ENOSPC, "No space left", "f"), OSError, "No space left: 'f'"),
    (KeyboardInterrupt(), KeyboardInterrupt, ""),
    (ZeroDivisionError("x"), RankError, "rank 1 failed: ZeroDivisionError: x"),
    (SystemExit(4), RankError, "rank 1 failed: SystemExit: 4"),
]


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("tool", [raise_on_all_ranks, abort_on_error])
def test_what_one_rank_raises_all_raise(comm, tool):
    for error, kind, text in ONE_RANK_MEETS:
        with pytest.raises(BaseException) as caught, tool(comm):  # noqa: PT011
            if comm.rank == 1:
                raise error
        if comm.rank == 1:
            assert caught.value is error
        else:
            assert type(caught.value) is kind
            assert text in str(caught.value)
            assert getattr(caught.value, "errno", None) == getattr(error, "errno", None)


@pytest.mark.ranks(1, 2, 3)
def test_what_the_root_raises_all_raise(comm):
    with pytest.raises(InputError, match="unreadable"):
        on_root(comm, lambda: (_ for _ in ()).throw(OSError("unreadable")))
    with pytest.raises(LookupError if comm.rank == 0 else RankError, match="gone"):
        on_root(comm, lambda: (_ for _ in ()).throw(LookupError("gone")))
    if comm.size > 1:
        with pytest.raises((RankError, AttributeError)):
            on_root(comm, lambda: lambda: "cannot be sent")
    assert on_root(comm, lambda: [comm.rank, "text"]) == [0, "text"]


@pytest.mark.ranks(1, 2, 3)
def test_cleanup_is_called_on_all_ranks_or_on_none(comm):
    freed = []
    with collective_cleanup(comm, lambda: freed.append(comm.allreduce(1))):
        pass
    with (
        pytest.raises(InputError),
        collective_cleanup(comm, lambda: freed.append(comm.allreduce(1))),
    ):
        if comm.rank == comm.size - 1:
            raise InputError("one rank's")
    assert freed == [comm.size, comm.size]
    if comm.size > 1:
        with pytest.raises((ValueError, TypeError)), collective_cleanup(comm, freed.clear):
            raise TypeError if comm.rank else ValueError
        assert freed == [comm.size, comm.size]


@pytest.mark.ranks(1, 2, 3)
def test_a_replicated_number_must_be_the_same(comm):
    for number in (1.0, np.nan, -np.inf):
        np.testing.assert_equal(same_on_all_ranks(comm, [2.0, number], "it"), [2.0, number])
    assert same_on_all_ranks(comm, [1.0 + 1e-12 * comm.rank], "it") == [1.0]
    if comm.size > 1:
        for number in (np.nan, np.inf, 1.0 + 1e-6):
            mine = number if comm.rank == 1 else 1.0
            text = f"it differs between ranks: 1.0 on rank 0, {number!r} on rank 1"
            with pytest.raises(NumericalError, match=re.escape(text.replace("np.float64", ""))):
                same_on_all_ranks(comm, [mine], "it")


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    "state", [None, 3, np.int64(3), np.random.RandomState, np.random.default_rng]
)
def test_ranks_draw_one_seed(comm, state):
    mine = state(comm.rank) if callable(state) else state
    seed = shared_seed(comm, mine)
    assert comm.allgather(seed) == [seed] * comm.size
    again = shared_seed(comm, state(comm.rank) if callable(state) else state)
    assert (again == seed) == (state is not None)  # the global stream moves on
    if state is not None:
        assert shared_seed(comm, mine) == seed or callable(state)
        wrong = "seed" if comm.rank == comm.size - 1 else mine
        with pytest.raises(InputError, match="'random_state' must be None, an integer"):
            shared_seed(comm, wrong)


SCRIPT = """
import sys, time
from thalweg.errors import InputError, NumericalError
from thalweg.parallel import MPI, abort_on_error
from thalweg.workbench.run.single_run import watched
comm = MPI.COMM_WORLD
with abort_on_error(), watched({watchdog}):
    comm.Barrier()
    if comm.rank == 1:
        {fault}
    comm.allgather(0)
"""


@pytest.mark.parametrize(
    ("fault", "watchdog", "code", "text"),
    [
        ("raise InputError('row 7 is bad')", 0, 2, "thalweg: rank 1: row 7 is bad"),
        ("sys.exit(0)", 0, 1, "rank 1 of 2 failed:"),
        ("time.sleep(3600)", 0.5, 1, "Timeout (0:00:00.500000)!"),
    ],
)
def test_a_rank_that_fails_alone_ends_the_job(mpirun, fault, watchdog, code, text):
    script = textwrap.dedent(SCRIPT).format(fault=fault, watchdog=watchdog)
    done = mpirun(2, [sys.executable, "-c", script])
    assert done.returncode == code, done.stderr
    assert text in done.stderr


WITHOUT_STREAMS = """
from thalweg.parallel import MPI, abort_on_error
with abort_on_error():
    if MPI.COMM_WORLD.rank == 1:
        raise RuntimeError("only here")
    MPI.COMM_WORLD.Barrier()
"""


def test_a_rank_without_streams_brings_the_others_down(tmp_path, mpirun):
    (tmp_path / "fail.py").write_text(WITHOUT_STREAMS)
    command = ["bash", "-c", f"exec {sys.executable} fail.py <&- >&- 2>&-"]
    assert mpirun(2, command, seconds=60, cwd=tmp_path).returncode not in (0, -9)
