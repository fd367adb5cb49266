"""``thalweg certify`` tells the truth about any matrix, and refuses nonsense in a sentence."""

import json

import numpy as np
import pytest

from thalweg.cli.main import main


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
    assert facts["delta"] == pytest.approx(true_delta(digits, psi), rel=1e-10)
    assert facts["n_secants"] == 90 * 89 // 2
    assert facts["rank"] == 5
    i, j = facts["pair"]
    difference = digits[i] - digits[j]
    change = ((psi @ difference) ** 2).sum() / (difference**2).sum() - 1.0
    assert abs(change) == pytest.approx(facts["delta"], rel=1e-10)


def test_its_sentence_names_the_pair(files, capsys):
    folder, _ = files
    assert main(["certify", str(folder / "data.npy"), str(folder / "psi.npy")]) == 0
    assert "attained by points" in capsys.readouterr().out


def test_data_sets_have_names(files, capsys):
    folder, _ = files
    assert main(["certify", "digits", str(folder / "psi.npy"), "--rows", "90", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_points"] == 90


def test_bad_input_is_one_sentence(files, tmp_path, capsys):
    folder, psi = files
    np.save(tmp_path / "narrow.npy", psi[:, :9])
    np.save(tmp_path / "hole.npy", np.where(psi > 1, np.nan, psi))
    (tmp_path / "text.npy").write_text("no array")
    for name in ("narrow.npy", "hole.npy", "text.npy", "missing.npy"):
        assert main(["certify", str(folder / "data.npy"), str(tmp_path / name)]) == 2
        message = capsys.readouterr().err
        assert "Traceback" not in message
        assert len(message.strip().splitlines()) == 1
