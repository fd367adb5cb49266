"""``thalweg doctor``: what this installation is made of, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from thalweg.cli.arguments import Parser
from thalweg.diagnosis import Finding, examine


def main(argv: list[str]) -> int:
    """Report on this installation: 0 if all is well, 2 if something is broken.  Collective."""
    parser = Parser(
        prog="thalweg doctor",
        description="Show what this installation is made of, and what is wrong with it. "
        "Under mpirun it shows how the ranks share cores and threads, too.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    findings = examine()
    broken = any(finding.broken for finding in findings)
    if _rank() == 0:
        print(_as_json(findings) if options.json else _as_text(findings))
    return 2 if broken else 0


def _as_text(findings: list[Finding]) -> str:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.name:<{width}}  {finding.value}".rstrip())
        if finding.problem:
            mark = "BROKEN" if finding.broken else "note"
            advice = f" — {finding.advice}" if finding.advice else ""
            lines.append(f"{'':<{width}}  {mark}: {finding.problem}{advice}")
    broken = sum(finding.broken for finding in findings)
    lines.append("all well" if not broken else f"broken: {broken}")
    return "\n".join(lines)


def _as_json(findings: list[Finding]) -> str:
    report: dict[str, Any] = {
        "well": not any(finding.broken for finding in findings),
        "findings": [dataclasses.asdict(finding) for finding in findings],
    }
    return json.dumps(report, indent=2)


def _rank() -> int:
    module = sys.modules.get("mpi4py.MPI")
    return module.COMM_WORLD.rank if module is not None else 0
