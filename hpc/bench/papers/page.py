"""The page ``hpc/results/papers.md``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hpc.bench.papers import clustering, isometry, poster, saddlefree
from hpc.bench.papers.claims import VERDICTS, Claim, Document, Section

RESULTS = Path(__file__).resolve().parents[2] / "results"

#: Records by name, as the documents' functions take them.
RECORDS = ("embedding", "clustering", "isometry", "saddlefree")

_HEAD = """\
# The papers' tables, figures and claims

One row for each table, figure and numerical claim of the five source documents (two of them
scans of one poster), in the order of the documents. `scripts/bench papers` writes this page from
the records `hpc/results/*.json`: every figure of ours is read from them, and so is every verdict
that figures decide.

- *{reproduced}*: within the rounding of the published figure (at most 0.05) or, where that is a
  mean of random starts, within two standard errors of the difference; for a statement: the record
  confirms it.
- *{better}*: beyond that, on the side that is wanted. Seconds do not count, since the machines
  are years apart: they are printed beside each other.
- *{not_reproduced}*: beyond that, on the other side, or two standard errors; the reason stands
  with it.
- *{no_data}*: the data, or a legible figure, are not public.
- *{cut}*: the clock, or the number of starts, ended the recorded runs before
  they could tell, or the part has not been run.

`--data DIR` names the folder of the papers' data. Machines: {machines}.
"""


def documents(records: dict[str, Any]) -> list[Document]:
    """The documents with their claims."""
    return [
        poster.document(records["embedding"]),
        clustering.document(records["clustering"]),
        isometry.document(records["isometry"]),
        saddlefree.document(records["saddlefree"]),
    ]


def page(records: dict[str, Any]) -> str:
    """The whole page."""
    read = documents(records)
    reproduced, better, not_reproduced, no_data, cut = VERDICTS
    lines = [
        _HEAD.format(
            reproduced=reproduced,
            better=better,
            not_reproduced=not_reproduced,
            no_data=no_data,
            cut=cut,
            machines="; ".join(f"{name} {_machine(record)}" for name, record in records.items()),
        ),
        *_counts(read),
    ]
    for document in read:
        lines += ["", f"## {document.title}", "", document.source, *_sections(document.sections)]
        lines += _theory(document)
    return "\n".join(lines) + "\n"


def _machine(record: dict[str, Any]) -> str:
    machine = record["machine"]
    plural = "s" * (machine["cores"] != 1)
    return f"{machine['processor']}, {machine['cores']} core{plural}"


def claims_of(document: Document) -> list[Claim]:
    """All measured claims of a document."""
    return [claim for section in document.sections for claim in section.claims]


def _counts(read: list[Document]) -> list[str]:
    lines = [f"| document | rows | {' | '.join(VERDICTS)} | claims of theory, with a test |"]
    lines += ["|---|--:|" + "--:|" * len(VERDICTS) + "--:|"]
    total: Counter[str] = Counter()
    for document in read:
        counts = Counter(claim.verdict for claim in claims_of(document))
        total += counts
        cells = " | ".join(str(counts[verdict]) for verdict in VERDICTS)
        held = sum(bool(theorem.tests) for theorem in document.theory)
        theory = f"{len(document.theory)}, {held}"
        lines.append(f"| {document.title} | {counts.total()} | {cells} | {theory} |")
    cells = " | ".join(str(total[verdict]) for verdict in VERDICTS)
    theorems = [theorem for document in read for theorem in document.theory]
    theory = f"{len(theorems)}, {sum(bool(theorem.tests) for theorem in theorems)}"
    return [*lines, f"| together | {total.total()} | {cells} | {theory} |"]


def _sections(sections: list[Section]) -> list[str]:
    lines: list[str] = []
    for section in sections:
        lines += ["", f"### {section.title}", "", f"`{section.command}`. {section.settings}", ""]
        lines += ["| where and what | published | ours | verdict |", "|---|---|---|---|"]
        for claim in section.claims:
            verdict = f"*{claim.verdict}*" + (f": {claim.why}" if claim.why else "")
            lines.append(_line(claim.place, claim.published, claim.ours, verdict))
    return lines


def _theory(document: Document) -> list[str]:
    lines = ["", "### Theory, and the tests that hold it", ""]
    lines += ["| where | claim | tests |", "|---|---|---|"]
    for theorem in document.theory:
        tests = ", ".join(f"`{name}`" for name in theorem.tests) or "no test"
        note = f"; {theorem.note}" if theorem.note else ""
        lines.append(_line(theorem.place, theorem.claim, f"{tests}{note}"))
    return lines


def _line(*cells: str) -> str:
    """A line of a table; bars within cells, as of |H|, would end them."""
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
