"""Signals: put off until the run is cleaned up, never swallowed."""

import os
import signal
import subprocess
import sys

import pytest

import thalweg
from thalweg.driver.signals import SignalWatch
from thalweg.parallel import MPI
from thalweg.result import Status


@pytest.fixture(autouse=True)
def usual_handler():
    """Ctrl-C as in an interactive Python, also where the tests run in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def sends(number, iteration=3, on_rank=0):
    def callback(iterate):
        if iterate.iteration == iteration and MPI.COMM_WORLD.rank == on_rank:
            os.kill(os.getpid(), number)

    return callback


@pytest.mark.ranks(1, 2, 3)
def test_ctrl_c_on_one_rank_is_a_keyboard_interrupt_on_all(comm, bowl, heavy_ball):
    sent = sends(signal.SIGINT, on_rank=comm.size - 1)
    rules = {"decrease": None, "iterations": 10, "callback": sent}
    with pytest.raises(KeyboardInterrupt):
        thalweg.minimize(bowl(comm), solver=heavy_ball(), **rules)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_handler_from_before_gets_the_signal(comm, bowl, heavy_ball):
    seen = []
    signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    rules = {"decrease": None, "callback": sends(signal.SIGUSR1)}
    result = thalweg.minimize(bowl(comm), solver=heavy_ball(), **rules)
    assert seen == [signal.SIGUSR1]
    assert result.status is Status.INTERRUPTED
    assert result.iterations == 3
    assert "not saved" in result.message


def test_with_a_checkpoint_ctrl_c_ends_in_a_result_that_says_so(comm, bowl, heavy_ball, tmp_path):
    rules = {"decrease": None, "checkpoint": tmp_path, "callback": sends(signal.SIGINT)}
    result = thalweg.minimize(bowl(comm), solver=heavy_ball(), **rules)
    assert result.status is Status.INTERRUPTED
    assert "a checkpoint holds the state" in result.message
    assert (tmp_path / "latest").exists()


@pytest.mark.ranks(1, 2)
def test_a_signal_lets_what_is_within_a_step_come_to_its_end(comm, bowl, heavy_ball, folder):
    inner = []

    def within(iterate):
        if iterate.iteration == 2:
            stop = {"decrease": None, "iterations": 8, "callback": sends(signal.SIGTERM)}
            inner.append(thalweg.minimize(bowl(comm), solver=heavy_ball(), **stop))

    options = {"decrease": None, "callback": within, "checkpoint": folder}
    outer = thalweg.minimize(bowl(comm), solver=heavy_ball(), **options)
    assert [(run.status, run.iterations) for run in inner] == [(Status.ITERATION_LIMIT, 8)]
    assert (outer.status, outer.iterations) == (Status.INTERRUPTED, 2)


@pytest.mark.ranks(1, 2)
def test_a_start_that_a_signal_may_have_cut_short_is_not_saved(comm, bowl, heavy_ball, folder):
    SignalWatch().__enter__()  # as commands do, while objectives are built
    if comm.rank == 0:
        os.kill(os.getpid(), signal.SIGTERM)
    stop = {"decrease": None, "iterations": 0, "checkpoint": folder}
    result = thalweg.minimize(bowl(comm), solver=heavy_ball(), **stop)
    assert result.status is Status.INTERRUPTED
    assert "not saved" in result.message
    assert not (folder / "latest").exists()


TERMINATED = """
import os, signal
import numpy as np
from thalweg.parallel import MPI
from thalweg_embedding import TSNE
from thalweg.driver import loop

record = loop._Run._record

def then_terminated(self, state):
    record(self, state)
    if self.at.iteration == 2:
        os.kill(os.getpid(), signal.SIG{name})

loop._Run._record = then_terminated
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    TSNE(perplexity=5).fit(np.random.default_rng(0).standard_normal((40, 3)))
except KeyboardInterrupt:
    print("interrupted")
else:
    print("went on")
"""


@pytest.mark.parametrize(("name", "code", "text"), [("INT", 0, "interrupted"), ("TERM", -15, "")])
def test_a_signal_ends_a_script_that_fits_an_estimator(name, code, text):
    command = [sys.executable, "-c", TERMINATED.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (code, text)
