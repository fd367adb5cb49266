"""The page of the papers' claims is what the records give, and the tests it names exist."""

import ast
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent


@pytest.fixture(scope="module")
def papers():
    """The modules, the documents and the records."""
    sys.path.insert(0, str(ROOT))
    try:
        from hpc.bench.papers import __main__ as command
        from hpc.bench.papers import claims, page

        records = command.records()
        yield claims, page, page.documents(records), records
    finally:
        sys.path.remove(str(ROOT))
        for name in [name for name in sys.modules if name.split(".")[0] == "hpc"]:
            del sys.modules[name]


def test_writing_the_page_again_changes_nothing(papers):
    _, page, _, records = papers
    written = (ROOT / "hpc" / "results" / "papers.md").read_text(encoding="utf-8")
    assert page.page(records) == written, "run scripts/bench papers"


def test_every_test_that_the_page_names_exists(papers):
    _, _, documents, _ = papers
    named = {name for document in documents for row in document.theory for name in row.tests}
    functions = {}
    for file in {name.partition("::")[0] for name in named}:
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        functions[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    missing = {name for name in named if name.split("::")[1] not in functions[name.split("::")[0]]}
    assert not missing


def test_every_published_cell_has_a_row(papers):
    _, page, documents, _ = papers
    places = [claim.place for document in documents for claim in page.claims_of(document)]
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


def test_every_claim_that_fails_has_a_reason(papers):
    claims, page, documents, _ = papers
    for document in documents:
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
def test_verdicts_follow_from_figures(papers, ours, published, settings, verdict):
    assert papers[0].compared(ours, published, **settings).startswith(verdict)
