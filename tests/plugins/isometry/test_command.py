"""``thalweg certify`` tells the truth about any matrix, and refuses nonsense in a sentence."""

import json

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.workbench.command.main import main
from thalweg.workbench.run import compare, plot
from thalweg_isometry import certify


@pytest.fixture
def files(tmp_path, digits):
    random = np.random.default_rng(0)
    psi = random.standard_normal((5, 64)) / np.sqrt(5)
    np.save(tmp_path / "data.npy", digits)
    np.save(tmp_path / "psi.npy", psi)
    return tmp_path, psi


def test_it_certifies_a_matrix_from_anywhere(files, digits, true_delta, capsys):
    folder, psi = files
    assert main(["certify", str(folder / "data.npy"), str(folder / "psi.npy"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    truth = true_delta(digits, psi)
    assert facts["delta_lower"] <= truth <= facts["delta"]
    assert facts["delta"] == pytest.approx(truth, rel=1e-7)
    assert facts["n_secants"] == 90 * 89 // 2
    assert facts["rank"] == 5
    i, j = facts["pair"]
    difference = digits[i] - digits[j]
    change = ((psi @ difference) ** 2).sum() / (difference**2).sum() - 1.0
    assert abs(change) == pytest.approx(facts["delta"], rel=1e-7)


def test_its_sentence_names_the_pair(files, capsys):
    folder, _ = files
    assert main(["certify", str(folder / "data.npy"), str(folder / "psi.npy")]) == 0
    assert "attained by points" in capsys.readouterr().out


def test_data_sets_have_names(files, capsys):
    folder, _ = files
    assert main(["certify", "digits", str(folder / "psi.npy"), "--rows", "90", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_points"] == 90


def test_a_map_that_keeps_every_distance_has_no_worst_pair(files, capsys):
    folder, _ = files
    np.save(folder / "same.npy", np.eye(64))
    arguments = ["certify", str(folder / "data.npy"), str(folder / "same.npy")]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "every distance is kept" in said
    assert "-1" not in said
    assert main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["pair"] is None
    assert facts["delta_lower"] == 0.0
    assert facts["delta"] < 1e-8


def test_bad_input_is_one_sentence(files, capsys):
    folder, psi = files
    np.save(folder / "narrow.npy", psi[:, :9])
    np.save(folder / "hole.npy", np.where(psi > 1, np.nan, psi))
    np.save(folder / "nothing.npy", psi[:0])
    np.save(folder / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    (folder / "short.npy").write_bytes((folder / "psi.npy").read_bytes()[:-40])
    (folder / "text.npy").write_text("no array")
    (folder / "folder.npy").mkdir()
    words = {
        "narrow.npy": "5 x 9, but the points have 64 columns",
        "hole.npy": "nan in row",
        "nothing.npy": "is empty: its shape is 0 x 64",
        "objects.npy": "never unpickled",
        "short.npy": "truncated",
        "text.npy": "is not an npy file",
        "folder.npy": "is a folder",
        "missing.npy": "there is no file",
    }
    for name, text in words.items():
        assert main(["certify", str(folder / "data.npy"), str(folder / name)]) == 2
        message = capsys.readouterr().err
        assert text in message
        assert len(message.strip().splitlines()) == 1


@pytest.mark.parametrize("neighbors", [0, 90])
def test_neighbors_that_the_points_do_not_have_are_refused(files, capsys, neighbors):
    folder, _ = files
    arguments = ["certify", str(folder / "data.npy"), str(folder / "psi.npy")]
    assert main([*arguments, "--secants", "neighbors", "--neighbors", str(neighbors)]) == 2
    assert f"less than the 90 points, not {neighbors}" in capsys.readouterr().err


def test_values_that_cannot_be_squared_are_refused(files, digits, capsys):
    folder, _ = files
    np.save(folder / "huge.npy", digits * 1e200)
    assert main(["certify", str(folder / "huge.npy"), str(folder / "psi.npy")]) == 2
    assert "too large to square" in capsys.readouterr().err


def test_files_in_the_other_order_are_refused(files, capsys):
    folder, _ = files
    assert main(["certify", str(folder / "psi.npy"), str(folder / "data.npy")]) == 2
    message = capsys.readouterr().err
    assert "the order is: thalweg certify DATA COMPONENTS" in message
    assert len(message.strip().splitlines()) == 1


def test_arguments_in_the_other_order_are_refused(digits):
    with pytest.raises(InputError, match=r"not ndarray; call certify\(secants, components\)"):
        certify(digits, digits)


def test_a_comparison_draws_the_rank_of_each_method_against_delta(tmp_path, digits):
    np.save(tmp_path / "data.npy", digits[:24])
    solvers = ["hinge-lbfgs", "nile-pro", "secant-pca"]
    config = {
        "data": {"path": str(tmp_path / "data.npy")},
        "objective": {"name": "near-isometry", "delta": 0.5},
        "stop": {"iterations": 3},
        "method": [{"solver": solver} for solver in solvers],
    }
    compare(config, tmp_path / "all", comm=MPI.COMM_SELF)
    found = json.loads((tmp_path / "all" / "comparison.json").read_text())
    assert found["compared"] == ["delta", "rank"]
    assert all(row["metrics"]["rank"] >= 1 for row in found["methods"])
    table = (tmp_path / "all" / "comparison.md").read_text().splitlines()
    assert [cell.strip() for cell in table[0].split("|")][3:5] == ["delta", "rank"]
    picture = tmp_path / "all" / "comparison.png"
    picture.unlink()
    assert picture in plot(tmp_path / "all")
    assert picture.exists()
