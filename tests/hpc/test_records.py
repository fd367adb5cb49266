"""Pages are what the records give: the papers' claims and their tests, the README, the machine."""

import ast
import platform
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
sys.path.insert(0, str(ROOT))

from hpc.bench.papers import __main__ as command  # noqa: E402
from hpc.bench.papers import claims, page  # noqa: E402
from hpc.bench.readme import with_results  # noqa: E402
from hpc.machine import describe_machine  # noqa: E402

RECORDS = command.records()
DOCUMENTS = page.documents(RECORDS)


def test_writing_the_page_again_changes_nothing():
    written = (ROOT / "hpc" / "results" / "papers.md").read_text(encoding="utf-8")
    assert page.page(RECORDS) == written, "run scripts/bench papers"


def test_every_test_that_the_page_names_exists():
    named = {name for document in DOCUMENTS for row in document.theory for name in row.tests}
    functions = {}
    for file in {name.partition("::")[0] for name in named}:
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        functions[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert not {name for name in named if name.split("::")[1] not in functions[name.split("::")[0]]}


def test_every_published_cell_has_a_row():
    places = [claim.place for document in DOCUMENTS for claim in page.claims_of(document)]
    assert len(places) == len(set(places))
    for table, cells in (("Table 7.1,", 6 * 3), ("Table 7.2,", 27), ("Table 7.3, δ", 6)):
        assert sum(place.startswith(table) for place in places) >= cells
    for name in ("GD", "FP", "DiagH", "SD", "SD-", "L-BFGS", "CG"):
        assert any(place.startswith(f"Table, {name}:") for place in places)
    for name in ("SG", "LG", "Moon", "MoonN", "Flower", "Faces", "WebKB"):
        for method in ("ISM", "SM", "DG"):
            for start in ("SI", "RI"):
                assert any(
                    place.startswith(name) and place.endswith(f", {method} {start}")
                    for place in places
                )


def test_every_claim_that_fails_has_a_reason():
    for document in DOCUMENTS:
        for claim in page.claims_of(document):
            if claim.verdict in (claims.NOT, claims.NO_DATA, claims.CUT):
                assert claim.why, claim.place


@pytest.mark.parametrize(
    ("ours", "published", "settings", "verdict"),
    [
        (0.566, "0.57", {"lower": False}, "reproduced"),
        (0.5, "0.57", {"lower": False}, "not reproduced"),
        (7, "9", {"lower": True}, "better"),
        (0.584, "1", {"lower": False}, "not reproduced"),
        (0.0, "0.4", {"lower": False, "deviation": 0.4, "starts": 3}, "not yet run"),
        (0.0, "0.91", {"lower": False, "deviation": 0.2, "starts": 3}, "not reproduced"),
        (0.3, "0.4", {"lower": False, "deviation": 0.4, "starts": 3}, "reproduced"),
    ],
)
def test_verdicts_follow_from_figures(ours, published, settings, verdict):
    assert claims.compared(ours, published, **settings).startswith(verdict)


def test_writing_the_results_of_the_readme_again_changes_nothing():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_results(readme) == readme, "run scripts/bench --readme"


def test_a_readme_without_results_is_refused():
    with pytest.raises(ValueError, match="README"):
        with_results("no results")


@pytest.mark.petsc
def test_the_machine_is_described_without_names_or_paths():
    found = describe_machine()
    assert found["cores"] >= 1
    assert found["memory"] > 0
    assert {"python", "petsc", "mpi", "numpy", "thalweg"} <= set(found["versions"])
    text = repr(found)
    assert "/" not in found["processor"]
    assert platform.node() not in text
