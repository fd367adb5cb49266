"""``thalweg certify`` tells the truth about any matrix, and refuses nonsense in a sentence."""

import json

import numpy as np
import pytest

from thalweg.parallel import MPI
from thalweg.workbench.command.main import main
from thalweg.workbench.run import compare


@pytest.fixture
def psi():
    return np.random.default_rng(0).standard_normal((5, 64)) / np.sqrt(5)


@pytest.fixture
def certified(tmp_path, digits, psi, capsys, monkeypatch):
    """What the command prints: facts from JSON, a text, or one sentence of refusal."""
    monkeypatch.chdir(tmp_path)
    np.save("data.npy", digits)
    np.save("psi.npy", psi)

    def run(*arguments):
        code = main(["certify", *arguments])
        printed = capsys.readouterr()
        if code == 0:
            as_json = "--json" in arguments
            whole = printed.err + printed.out
            return json.loads(printed.out, parse_constant=str) if as_json else whole
        assert (code, len(printed.err.strip().splitlines())) == (2, 1)
        return printed.err

    return run


def test_it_certifies_a_matrix_from_anywhere(certified, psi, digits, true_delta):
    facts = certified("data.npy", "psi.npy", "--json")
    truth = true_delta(digits, psi)
    assert facts["delta_lower"] <= truth <= facts["delta"]
    assert facts["delta"] == pytest.approx(truth, rel=1e-7)
    assert (facts["n_secants"], facts["rank"]) == (90 * 89 // 2, 5)
    i, j = facts["pair"]
    difference = digits[i] - digits[j]
    change = ((psi @ difference) ** 2).sum() / (difference**2).sum() - 1.0
    assert abs(change) == pytest.approx(facts["delta"], rel=1e-7)
    np.savetxt("data.csv", [range(64), *digits], delimiter=",")
    assert "note: the first line of 'data.csv' was" in certified("data.csv", "psi.npy")


def test_baselines_of_the_same_rank_stand_beside_it(certified, psi, digits, true_delta):
    names = ["pca", "secant-pca", "random-projection", "adagio"]
    facts = certified("data.npy", "psi.npy", "--json", "--against", ",".join(names))
    others = facts["against"]
    assert list(others) == names
    assert all(other["rank"] == 5 for other in others.values())
    leading = np.linalg.svd(digits - digits.mean(axis=0))[2][:5]
    assert others["pca"]["delta"] == pytest.approx(true_delta(digits, leading), rel=1e-6)
    np.save("images.npy", digits @ psi.T)
    options = "--quantity", "inner-product", "--absolute", "--against", "pca"
    products, kept = digits @ digits.T, digits @ leading.T
    change = np.abs(np.triu(kept @ kept.T - products, 1)).max()
    facts = certified("data.npy", "images.npy", "--json", *options)
    assert facts["against"]["pca"]["delta"] == pytest.approx(change, rel=1e-6)
    lines = certified("data.npy", "images.npy", *options).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["absolute", "pca:"]
    said = certified("data.npy", "psi.npy", "--against", "umap")
    assert "has no map 'umap'; give any of pca, secant-pca" in said


def test_a_map_that_keeps_every_distance_has_no_worst_pair(certified):
    np.save("same.npy", np.eye(64))
    assert "every distance is kept" in certified("data.npy", "same.npy")
    facts = certified("data.npy", "same.npy", "--json")
    assert facts["pair"] is None
    assert facts["delta_lower"] == 0.0
    assert facts["delta"] < 1e-8
    np.save("two.npy", np.eye(3))
    np.save("products.npy", np.ones((3, 1)))  # each 1, and 0 before: what is infinite is null
    found = certified("two.npy", "products.npy", "--json", "--quantity", "inner-product")
    assert found["delta"] is None


def test_bad_input_is_one_sentence(certified, psi, tmp_path):
    np.save("narrow.npy", psi[:, :9])
    np.save("hole.npy", np.where(psi > 1, np.nan, psi))
    np.save("nothing.npy", psi[:0])
    np.save("objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    (tmp_path / "short.npy").write_bytes((tmp_path / "psi.npy").read_bytes()[:-40])
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "folder.npy").mkdir()
    words = {
        "narrow.npy": "5 x 9, but the points have 64 columns",
        "hole.npy": "nan in row",
        "nothing.npy": "is empty: its shape is 0 x 64",
        "objects.npy": "is damaged, or not an npy file",
        "short.npy": "is damaged, or not an npy file",
        "text.npy": "is damaged, or not an npy file",
        "folder.npy": "is a folder",
        "missing.npy": "there is no file",
    }
    for name, text in words.items():
        assert text in certified("data.npy", name)
    assert "counts only with" in certified("data.npy", "psi.npy", "--labels", "data.npy")
    for neighbors in ("0", "90"):  # which the points do not have
        said = certified("data.npy", "psi.npy", "--secants=neighbors", "--neighbors", neighbors)
        assert f"{neighbors} nearest neighbors of each row need at least" in said


def test_the_table_of_a_comparison_has_delta_and_rank(tmp_path, digits):
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
