"""The line that follows a run on a terminal."""

import io
import sys

import pytest
from tqdm import tqdm

import thalweg
from thalweg.driver import HomotopySchedule, Stop, progress
from thalweg.parallel import MPI


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("known", [False, True])
def test_the_bar_shows_the_stage_and_the_wanted_objective(bowl, heavy_ball, monkeypatch, known):
    class Told(bowl):
        def value_at(self, parameter, value):
            return 1000.0 + value if known else float("nan")

    texts = []
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(tqdm, "set_postfix_str", lambda bar, text, **_: texts.append(text))
    homotopy = HomotopySchedule((4.0, 1.0), Stop(iterations=2, decrease=None))
    result = thalweg.minimize(
        Told(MPI.COMM_SELF), solver=heavy_ball(), homotopy=homotopy, iterations=5, progress=True
    )
    values = result.trace["wanted_objective" if known else "objective"]
    expected = [f"stage {n}/2 f={value:.6g}" for n, value in zip("11222", values[1:], strict=True)]
    assert [text.split(" |g|=")[0] for text in texts] == expected


@pytest.mark.ranks(1, 2)
def test_a_log_gets_a_line_now_and_then(comm, bowl, heavy_ball, monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    thalweg.minimize(bowl(comm), solver=heavy_ball(), iterations=3, decrease=None, progress=True)
    lines = log.getvalue().splitlines()
    assert [line.split(" after ")[0] for line in lines] == (
        [f"thalweg: iteration {n}" for n in (1, 2, 3)] if comm.rank == 0 else []
    )
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 3600.0)
    log.truncate(0)
    log.seek(0)
    thalweg.minimize(bowl(comm), solver=heavy_ball(), iterations=3, decrease=None, progress=True)
    assert log.getvalue() == ""
    log.close()
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    result = thalweg.minimize(bowl(comm), solver=heavy_ball(), iterations=3, progress=True)
    assert result.iterations == 3
