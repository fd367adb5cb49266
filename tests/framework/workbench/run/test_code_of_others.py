"""What plugins' metrics and pictures fail at is noted, and costs no results."""

import json
import re
import sys
import types

import numpy as np
import pytest

import thalweg
from thalweg.parallel import MPI
from thalweg.plugins import MetricSpec, Provider, plugins
from thalweg.workbench.run import pictures

CONFIG = {
    "data": {"name": "digits", "rows": 40},
    "objective": {"name": "elastic-embedding", "perplexity": 5},
    "stop": {"iterations": 3, "decrease": 0.0},
    "output": {"pictures": False},
}


class Panic(BaseException):
    """What extensions in Rust raise."""


def fails(error):
    def measure(solution, dataset, comm):
        raise error

    return measure


def fails_on_the_last_rank(solution, dataset, comm):
    # Messages are under way when the last rank fails, which it never receives.
    if comm.rank == comm.size - 1:
        raise ValueError("only here")
    comm.bcast("left behind", root=0) if comm.rank == 0 else None
    dataset.layout.comm.bcast(["left behind"], root=0) if comm.rank == 0 else None
    return {"counted": 1}


@pytest.fixture
def metric(monkeypatch):
    """Installs a metric of a plugin, before one that works."""

    def install(measure):
        module = types.ModuleType("metrics_of_others")
        module.bad, module.good = measure, lambda solution, dataset, comm: {"ranks": comm.size}
        monkeypatch.setitem(sys.modules, module.__name__, module)
        specs = []
        for name in ("bad", "good"):
            spec = MetricSpec(name=name, summary="", load=f"{module.__name__}:{name}")
            object.__setattr__(spec, "provider", Provider("mine", "thalweg-mine", "1"))
            specs.append(spec)
        known = {spec.name: spec for spec in specs}
        monkeypatch.setitem(plugins()._specs, MetricSpec, known)

    return install


def folder_of(comm, tmp_path):
    return comm.bcast(str(tmp_path / "out"), root=0)


LOOP = []
LOOP.append(LOOP)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (fails(ValueError("bad\nluck")), "ValueError: bad luck"),
        (fails(SystemExit(0)), "SystemExit: 0"),
        (fails(Panic("at the disco")), "Panic: at the disco"),
        (lambda *_: {"x": object()}, "TypeError: .*JSON"),
        (lambda *_: {"x": {1, 2}}, "TypeError: .*JSON"),
        (lambda *_: {"x": LOOP}, "RecursionError"),
        (lambda *_: 3, "TypeError"),
        (fails_on_the_last_rank, "ValueError: only here"),
    ],
)
def test_a_metric_that_fails_is_a_note(comm, tmp_path, metric, measure, text):
    metric(measure)
    out = folder_of(comm, tmp_path)
    result = thalweg.run(CONFIG, out, comm=comm)
    assert result.status.name == "ITERATION_LIMIT"
    assert result.metrics["ranks"] == comm.size
    assert "x" not in result.metrics
    assert "counted" not in result.metrics
    (note,) = (n for n in result.notes if "metric" in n)
    assert len(set(comm.allgather(note))) == 1
    assert note.startswith("metric 'bad' of thalweg-mine 1 (entry point 'mine') failed: ")
    assert re.search(text, note)
    with open(f"{out}/result.json", encoding="utf-8") as stream:
        facts = json.load(stream)
    assert note in facts["notes"]
    assert facts["metrics"]["ranks"] == comm.size
    assert np.load(f"{out}/solution.npy").shape == (40, 2)


@pytest.mark.ranks(1, 2)
def test_ctrl_c_in_a_metric_is_passed_on_after_the_results_are_written(comm, tmp_path, metric):
    metric(fails(KeyboardInterrupt()))
    out = folder_of(comm, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        thalweg.run(CONFIG, out, comm=comm)
    comm.Barrier()
    with open(f"{out}/result.json", encoding="utf-8") as stream:
        assert json.load(stream)["iterations"] == 3
    assert np.load(f"{out}/solution.npy").shape == (40, 2)


def broken(*arguments, **options):
    raise RuntimeError("no font can be found")


DRAWN = {**CONFIG, "output": {"pictures": True}}


def test_a_picture_that_cannot_be_drawn_does_not_cost_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "draw_convergence", broken)
    result = thalweg.run(DRAWN, tmp_path / "run", comm=MPI.COMM_SELF)
    assert "the pictures failed: RuntimeError: no font can be found" in result.notes
    facts = json.loads((tmp_path / "run" / "result.json").read_text())
    assert facts["notes"] == list(result.notes)
    for name in ("trace.csv", "solution.npy"):
        assert (tmp_path / "run" / name).exists()
