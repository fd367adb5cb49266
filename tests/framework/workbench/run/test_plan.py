"""A plan predicts memory from shapes, says what does not fit, and refuses what it cannot know."""

import json
from pathlib import Path

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg.workbench.command.main import main
from thalweg.workbench.plan import plans
from thalweg.workbench.readers.load import data_shape, load_data

ROOT = Path(__file__).resolve().parents[4]

CONFIGURATIONS = {
    "t-sne": {"objective": {"name": "t-sne"}, "preconditioner": {"name": "spectral"}},
    "pacmap": {"objective": {"name": "pacmap"}, "preconditioner": {"name": "spectral"}},
    "kdac": {"objective": {"name": "kdac"}},
    "near-isometry": {"objective": {"name": "near-isometry", "delta": 0.4}},
    "autoencoder": {"objective": {"name": "autoencoder"}},
}


def plan(config, ranks, **shape):
    """That of the method that takes most."""
    return max(plans(config, ranks, **shape), key=lambda each: each.memory)


def test_columns_count_where_rows_are_few():
    t_sne = {"data": {"name": "blobs", "rows": 10}, **CONFIGURATIONS["t-sne"]}
    for rows, columns, taken in ((1500, 8000, 0.58), (3000, 4000, 0.91), (8000, 1000, 0.58)):
        planned = plan(t_sne, 1, rows=rows, columns=columns).memory / 2**30  # as runs took, in GiB
        assert planned == pytest.approx(taken, rel=0.25)
    weighted = {"name": "elastic-embedding", "repulsive_weights": "squared-distances"}
    found = plan({"data": {"name": "blobs"}, "objective": weighted}, 1, rows=8000, columns=20)
    assert found.memory / 2**30 == pytest.approx(1.22, rel=0.1)  # as a run took, too


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_family_says_what_it_takes_without_reading_data(name):
    section = {"data": {"name": "blobs", "rows": 10}, **CONFIGURATIONS[name]}
    shape = {"rows": 1_000_000_000, "columns": 128}
    plans = [plan(section, ranks, **shape) for ranks in (1, 64, 4096)]
    alone, some, many = (found.memory for found in plans)
    assert alone > 1e9 * 128 * 8
    assert alone > some > many
    text = plans[1].verdict(4e9)
    assert "does not fit into 3.73 GiB per rank" in text
    assert plans[1].peak_phase.name in text
    assert "\n" not in text
    assert plans[1].verdict(1e15).startswith("A run on 64 ranks fits")


def test_the_shape_is_that_of_the_data_after_the_choice_of_rows_and_columns(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((40, 6)))
    for options, shape in (
        ({}, (40, 6)),
        ({"rows": 7, "columns": [0, 2, 4]}, (7, 3)),
        ({"components": 2, "sample": True, "rows": 30}, (30, 2)),
    ):
        assert data_shape({"path": str(path), **options}) == shape
    assert data_shape({"name": "blobs", "rows": 10**12, "dimension": 3}) == (10**12, 3)
    assert data_shape({"name": "digits", "rows": 100, "components": 5}) == (100, 5)
    with pytest.raises(InputError, match="has 40 rows"):
        data_shape({"path": str(path), "rows": 50})
    np.save(path, np.zeros((2000, 9000), np.uint8))
    config = {"data": {"path": str(path), "components": 50}, "objective": {"name": "t-sne"}}
    (plan,) = plans(config, 1)
    assert (plan.peak_phase.name, plan.problem.columns) == ("components", 50)
    assert 3 * 8 * 2000 * 9000 < plan.memory < 6 * 8 * 2000 * 9000
    np.savez(tmp_path / "x.npz", x=np.zeros((5_000, 400)))
    (plan,) = plans({**config, "data": {"path": str(tmp_path / "x.npz")}}, 64)
    assert 8 * 5_000 * 400 < plan.phases[0].temporary < 16 * 5_000 * 400
    config = {"objective": {"name": "autoencoder"}, "data": {"name": "digits"}}
    written = {**config, "objective": {"name": "autoencoder", "layers": [64, 32, 8]}}
    assert plans(config, 1)[0].memory == plans(written, 1)[0].memory


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"path": 3}, "'path' of section \\[data\\] must be a string"),
        ({"path": "x.npy", "name": "digits"}, "both 'path' and 'name'"),
        ({"name": "blobs", "rows": "many"}, "'rows' of section \\[data\\] must be an integer"),
        ({"name": "digits", "components": "all"}, "'components' of section"),
        ({"name": "digits", "components": 1000}, "have at most 64 principal components"),
        ({"name": "digits", "scale": "some"}, "must be one of none, unit, standard"),
    ],
)
def test_what_a_run_would_refuse_a_plan_refuses(section, words):
    for refusing in (data_shape, load_data):
        with pytest.raises(InputError, match=words):
            refusing(section)


def phases(objective, **given):
    shape = {"rows": 1_000_000, "columns": 20}
    found = plan({"data": {"name": "blobs"}, "objective": objective, **given}, 4, **shape)
    return {phase.name: phase for phase in found.phases}


def test_a_plan_follows_the_options_that_cost_most():
    usual = phases({"name": "t-sne"})
    several = phases({"name": "t-sne", "perplexities": [10, 300]})
    assert several["affinities"].temporary == pytest.approx(10 * usual["affinities"].temporary)
    exact = phases({"name": "t-sne", "repulsion": "exact"})["iterations"]
    assert exact.temporary < usual["iterations"].temporary  # it has no mesh
    more = phases({"name": "t-sne"}, solver={"name": "lbfgs", "memory": 60})["iterations"]
    assert more.persistent - usual["iterations"].persistent == 50 * 2 * 8 * 250_000 * 2
    small = {"rows": 500, "columns": 20}
    for name, first in (("t-sne", "affinities"), ("umap", "neighbors")):  # UMAP's are never dense
        found = plan({"data": {"name": "blobs"}, "objective": {"name": name}}, 4, **small)
        assert found.phases[1].name == first
    with pytest.raises(InputError, match="'rosenbrock' does not say what it takes"):
        plan({"objective": {"name": "rosenbrock"}}, 2)


def test_each_method_of_a_comparison_is_planned_and_the_largest_decides(tmp_path, capsys):
    path = tmp_path / "a.toml"
    tables = [
        f'[[method]]\nlabel = "{label}"\nsolver = "{solver}"\npreconditioner = "{preconditioner}"\n'
        for label, solver, preconditioner in (
            ("plain", "gradient-descent", "identity"), ("curved", "lbfgs", "spectral"),
        )
    ]  # fmt: skip
    head = '[data]\nname = "blobs"\nrows = 5000\n[objective]\nname = "s-sne"\n'
    path.write_text(head + "".join(tables))
    found = plans(path, 2)
    assert [each.label for each in found] == ["plain", "curved"]
    assert "laplacian" not in {phase.name for phase in found[0].phases}
    assert "laplacian" in {phase.name for phase in found[1].phases}
    assert main(["plan", str(path), "--ranks", "2"]) == 0
    printed = capsys.readouterr().out
    assert "plain\n" in printed
    assert "curved\n" in printed
    assert "A run of the method '" in printed


def test_the_command_prints_a_table_and_fails_by_a_sentence(tmp_path, capsys):
    path = tmp_path / "a.toml"
    path.write_text('[data]\nname = "digits"\n[objective]\nname = "t-sne"\n')
    assert main(["plan", str(path), "--ranks", "4"]) == 0
    printed = capsys.readouterr().out
    assert "affinities" in printed
    assert "sent" not in printed
    assert "A run on 4 ranks would take" in printed
    much = ["--rows", "100000000", "--columns", "50", "--memory-per-rank", "1GiB"]
    assert main(["plan", str(path), "--ranks", "4", *much]) == 2
    printed = capsys.readouterr()
    assert "iterations" in printed.out
    assert "does not fit into 1.00 GiB per rank" in printed.err
    assert printed.err.count("\n") == 1
    assert main(["plan", str(path), "--memory-per-rank", "50MiB"]) == 2
    assert "Python and the libraries alone take 0.16 GiB" in capsys.readouterr().err
    for wrong in (["--ranks", "0"], ["--memory-per-rank", "much"], ["--set", "objective.name=jax"]):
        assert (main(["plan", str(path), *wrong]), capsys.readouterr().err.count("\n")) == (2, 1)


def test_planned_memory_is_within_a_quarter_of_what_was_measured(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from hpc.bench.scaling.cases import CASES, UNCERTIFIED, configuration

    measured = json.loads((ROOT / "hpc" / "results" / "scaling.json").read_text())
    assert {entry["ranks"] for entry in measured} >= {1, 2, 4}
    checked = 0
    for entry in measured:
        if entry["case"] in CASES and (entry["case"], entry["rows"]) not in UNCERTIFIED:
            section = configuration(entry["case"], entry["rows"])
            columns = section["data"]["dimension"]
            found = plan(section, entry["ranks"], rows=entry["rows"], columns=columns).memory
            assert 0.75 < found / (entry["memory"] + entry["base"]) < 1.25, entry
            checked += 1
    assert checked >= 8
