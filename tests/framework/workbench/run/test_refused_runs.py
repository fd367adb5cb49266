"""A run starts at a file's point; a refused one leaves nothing in the next one's way."""

import json
import sys
from unittest.mock import Mock

import numpy as np
import pytest
import tomli_w

import thalweg
from thalweg.errors import InputError, NumericalError
from thalweg.parallel import MPI, Layout
from thalweg.workbench.memory import require_vectors
from thalweg.workbench.run import compare
from thalweg.workbench.run.comparison import method_folders
from thalweg.workbench.run.single_run import Job
from thalweg_descent.lbfgs import LBFGS
from thalweg_embedding.preconditioners.diagonal import FixedPoint


def clustering(tmp_path, solver):
    np.save(tmp_path / "points.npy", np.random.default_rng(0).standard_normal((30, 4)))
    np.savetxt(tmp_path / "given.csv", np.arange(30) % 2, fmt="%d")
    return {
        "data": {"path": str(tmp_path / "points.npy"), "labels": str(tmp_path / "given.csv")},
        "objective": {"name": "kdac", "clusters": 2, "components": 2},
        "solver": {"name": solver},
        "stop": {"iterations": 3},
    }


def test_the_folder_is_free_again(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="on no manifold"):
        thalweg.run(clustering(tmp_path, "lbfgs"), out)
    assert not out.exists()
    thalweg.run(clustering(tmp_path, "ism"), out)
    assert (out / "result.json").exists()


QUICK = {
    "objective": {"name": "rosenbrock"},
    "solver": {"name": "gradient-descent"},
    "stop": {"iterations": 1},
    "output": {"pictures": False},
}


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["solution.npy", "trace.csv", "convergence.png", "result.json"])
def test_files_that_a_run_would_overwrite_stay(tmp_path, name, resume):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=name):
        thalweg.run(QUICK, tmp_path, resume=resume)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, "mine")]


def test_a_run_without_a_folder_has_nothing_to_resume():
    with pytest.raises(InputError, match="nothing to resume"):
        thalweg.run(QUICK, resume=True)


def test_a_variable_beyond_memory_or_indices_is_refused_before_it_is_made():
    with pytest.raises(InputError, match=r"would take .* GiB, but .* use fewer rows"):
        require_vectors(Layout(MPI.COMM_SELF, 2**29, 3), count=10**6)
    with pytest.raises(InputError, match="use fewer rows"):
        require_vectors(Layout(MPI.COMM_SELF, 2**40, 2**20))


@pytest.mark.parametrize(
    "labels",
    [
        ["SD", "SD-", "sd"], ["SD", "SD-", "SD-2", "SD 2"], ["λ", "μ"], ["-..", "+"],
        ["config.toml", "checkpoint"], ["m" * 300, "m" * 301],
    ],
)  # fmt: skip
def test_any_labels_get_folders_of_their_own(labels, tmp_path):
    folders = method_folders(labels)
    assert len({name.lower() for name in folders.values()}) == len(labels)
    for name in folders.values():
        assert name
        assert (tmp_path / name).parent == (tmp_path / name).resolve().parent
        assert name not in ("config.toml", "checkpoint", ".", "..")


def test_methods_whose_labels_look_alike_are_compared(tmp_path):
    methods = [{"label": "λ"}, {"label": "SD"}, {"label": "SD-"}]
    results = compare({**QUICK, "method": methods}, tmp_path / "all", comm=MPI.COMM_SELF)
    assert list(results) == ["λ", "SD", "SD-"]
    for row in json.loads((tmp_path / "all" / "comparison.json").read_text())["methods"]:
        assert (tmp_path / "all" / row["folder"] / "result.json").exists()
    assert not (tmp_path / "all" / "result.json").exists()


def test_a_method_that_fails_costs_no_other_its_result(tmp_path, monkeypatch):
    minimized, bad = Job.minimized, {"bad"}

    def some(job, **options):
        if job.directory.path.name in bad:
            raise NumericalError("a product is not finite")
        return minimized(job, **options)

    monkeypatch.setattr(Job, "minimized", some)
    own = {**QUICK, "method": [{"label": name} for name in ("first", "bad", "last")]}
    results = compare(own, tmp_path / "all", comm=MPI.COMM_SELF)
    stated = json.loads((tmp_path / "all" / "comparison.json").read_text())["failures"]
    assert stated == ["method 'bad' failed: a product is not finite"]
    assert (list(results), results["last"].notes[-1:]) == (["first", "last"], (*stated,))
    bad |= {"first", "last"}
    with pytest.raises(NumericalError, match="method 'bad' failed: a product"):
        compare(own, tmp_path / "none", comm=MPI.COMM_SELF)


def test_data_and_labels_may_move(tmp_path):
    for name, iterations in (("here", 2), ("there", 4)):
        folder = tmp_path / name
        folder.mkdir()
        np.save(folder / "points.npy", np.random.default_rng(0).standard_normal((20, 3)))
        np.save(folder / "labels.npy", np.arange(20) % 3)
        config = {
            "data": {"path": str(folder / "points.npy"), "labels": str(folder / "labels.npy")},
            "objective": {"name": "elastic-embedding", "perplexity": 4},
            "stop": {"iterations": iterations, "decrease": 0.0},
            "output": {"pictures": False},
        }
        result = thalweg.run(config, tmp_path / "run", resume=name == "there", comm=MPI.COMM_SELF)
    assert (result.iterations, len(result.trace)) == (4, 5)


FAILING = """
import sys
from thalweg.workbench.command.main import main
from thalweg.driver import loop
from thalweg.parallel import MPI

record = loop._Run._record

def fail_on_rank_one(self, state):
    record(self, state)
    if MPI.COMM_WORLD.rank == 1 and self.at.iteration == 2:
        raise RuntimeError("a cosmic ray")

loop._Run._record = fail_on_rank_one
sys.exit(main(sys.argv[1:]))
"""


def test_a_rank_that_raises_ends_the_run_with_its_number_and_traceback(tmp_path, mpirun):
    (tmp_path / "fail.py").write_text(FAILING)
    (tmp_path / "c.toml").write_text('[objective]\nname = "rosenbrock"\n')
    done = mpirun(3, [sys.executable, "fail.py", "run", "c.toml", "--out", "out"], cwd=tmp_path)
    assert done.returncode not in (0, -9)
    assert "rank 1 of 3 failed" in done.stderr
    assert "RuntimeError: a cosmic ray" in done.stderr
    assert not (tmp_path / "out" / "result.json").exists()


def test_preconditioners_are_warm_before_the_first_method_of_a_comparison(monkeypatch):
    order = []
    for part, name in ((FixedPoint, "setup"), (FixedPoint, "apply"), (LBFGS, "init")):
        inner = getattr(part, name)
        monkeypatch.setattr(
            part, name, lambda *a, _inner=inner, _name=name: order.append(_name) or _inner(*a)
        )
    methods = [{"label": n, "solver": {"name": "lbfgs"}} for n in "ab"]
    own = {"preconditioner": {"name": "fixed-point"}, "stop": {"iterations": 1}}
    data = {"name": "digits", "rows": 60}
    objective = {"name": "elastic-embedding", "perplexity": 5}
    compare({"data": data, "objective": objective, "method": methods, **own})
    assert order[:4] == ["setup", "apply", "setup", "init"]
    monkeypatch.setattr(FixedPoint, "apply", Mock(side_effect=ValueError("no such row")))
    methods[1]["preconditioner"] = {"name": "identity"}
    (last,) = compare({"data": data, "objective": objective, "method": methods, **own}).values()
    assert last.notes[-1] == "method 'a' failed: ValueError: no such row"


MAP = {
    "data": {"name": "digits", "rows": 60},
    "objective": {"name": "elastic-embedding", "perplexity": 8},
    "stop": {"iterations": 3, "decrease": 0.0},
    "output": {"pictures": False},
}
POINT = np.random.default_rng(0).standard_normal((60, 2))


def started_at(path, **stop):
    return {**MAP, "run": {"start": str(path)}, "stop": {**MAP["stop"], **stop}}


def saved(folder, point=POINT):
    np.save(folder / "start.npy", point)
    return folder / "start.npy"


@pytest.mark.ranks(2, 3)
def test_the_given_point_is_the_same_on_any_number_of_ranks(comm, tmp_path):
    path = comm.bcast(saved(tmp_path) if comm.rank == 0 else None)
    together = thalweg.run(started_at(path), comm=comm)
    alone = thalweg.run(started_at(path), comm=MPI.COMM_SELF)
    assert together.objective == pytest.approx(alone.objective, rel=1e-10)
    comm.barrier()


def test_a_file_beside_the_configuration_is_found(tmp_path, monkeypatch):
    saved(tmp_path)
    config = {**MAP, "run": {"start": "start.npy"}, "stop": {"iterations": 0}}
    (tmp_path / "c.toml").write_text(tomli_w.dumps(config))
    monkeypatch.chdir("/")
    assert np.array_equal(thalweg.run(tmp_path / "c.toml", comm=MPI.COMM_SELF).x, POINT)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (POINT[:-1], r"must have shape \(60, 2\), not \(59, 2\)"),
        (np.where(np.arange(60)[:, None] == 7, np.nan, POINT), "not finite in row 7"),
        (np.full((60, 2), "a"), "must hold real numbers"),
    ],
)
def test_a_point_that_cannot_be_used_is_refused(tmp_path, point, message):
    with pytest.raises(InputError, match=message):
        thalweg.run(started_at(saved(tmp_path, point)), comm=MPI.COMM_SELF)
