"""Runs the campaigns of this folder and records them; ``scripts/trials`` calls it.

Each module ``test_*.py`` is a campaign.  With ``--suite`` the whole test suite runs once in
this environment instead, and adds a row to the table of environments.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hpc.machine import describe_machine
from hpc.trials.mutations import chosen

from thalweg.workbench.report import format_table

TOP = Path(__file__).resolve().parents[2]
CAMPAIGNS = Path(__file__).parent
RESULTS = TOP / "hpc" / "results" / "trials.json"


def main(argv: list[str]) -> int:
    """Run what is asked for; print and record the table."""
    modules = {path.stem.removeprefix("test_"): path for path in CAMPAIGNS.glob("test_*.py")}
    parser = argparse.ArgumentParser(prog="scripts/trials", description=__doc__)
    parser.add_argument("campaign", nargs="*", help=f"of {', '.join(sorted(modules))}; all if none")
    parser.add_argument("--suite", metavar="NAME", help="run the test suite; NAME its environment")
    parser.add_argument("-k", help="only the cases that match, as pytest's -k; nothing is recorded")
    parser.add_argument("--report", metavar="XML", help="record this JUnit report of the campaign")
    options = parser.parse_args(argv)
    if unknown := set(options.campaign) - set(modules):
        parser.error(f"no campaign '{min(unknown)}'; there are {', '.join(sorted(modules))}")

    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if options.suite:
        row = {"environment": options.suite} | run_pytest(["tests"])
        row["versions"] = describe_machine()["versions"]
        found.setdefault("suite", {})[options.suite] = row
        rows = [row]
    else:
        rows = []
        for name in options.campaign or sorted(modules):
            arguments = [
                "-m",
                "trial",
                str(modules[name]),
                *(["-k", options.k] if options.k else []),
            ]
            counts = tally(Path(options.report)) if options.report else run_pytest(arguments)
            rows.append({"campaign": title(modules[name])} | counts)
            machine = describe_machine()
            other = ", MPICH" if machine["versions"]["mpi"].startswith("MPICH") else ""
            campaigns = found.setdefault("campaigns", {})
            if "mutations" in counts and name + other in campaigns:
                rows[-1] = with_earlier(rows[-1], campaigns[name + other])
            campaigns[name + other] = rows[-1] | {"machine": machine}
    shown = [{k: v for k, v in row.items() if k != "mutations"} for row in rows]
    print(format_table(shown if not options.suite else suite_rows(found)))
    if not options.k:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        RESULTS.with_suffix(".md").write_text(report(found), encoding="utf-8")
    return int(any(row["passed"] + row["skipped"] < row["cases"] for row in rows))


def title(module: Path) -> str:
    """First line of a campaign's docstring, without its full stop."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or module.stem
    return docstring.splitlines()[0].rstrip(".")


def run_pytest(arguments: list[str]) -> dict[str, Any]:
    """Counts of one pytest."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
        # os.environ, for MPI adds variables to the environment behind Python's back.
        subprocess.run(command, cwd=TOP, env=dict(os.environ))
        return tally(report)


def tally(report: Path) -> dict[str, Any]:
    """Cases, passed, skipped, hangs, tracebacks, seconds and a note, from a JUnit report."""
    counts: dict[str, Any] = dict.fromkeys(("cases", "passed", "skipped", "hangs", "tracebacks"), 0)
    tree = ElementTree.parse(report)
    slowest = 0.0
    mutations = []
    for case in tree.iter("testcase"):
        noted = {p.get("name"): p.get("value") for p in case.iter("property")}
        number = int(noted.get("cases") or 1)
        if case.find("failure") is None and case.find("error") is None:
            counts["skipped" if case.find("skipped") is not None else "passed"] += number
        counts["cases"] += number
        counts["hangs"] += int(noted.get("hang") or 0)
        counts["tracebacks"] += int(noted.get("traceback") or 0)
        slowest = max(slowest, float(noted.get("slowest") or 0))
        if noted.get("mutation"):
            mutations.append(json.loads(str(noted["mutation"])))
    if slowest:
        counts["note"] = f"a run ended at most {slowest:.1f} s after one rank had failed"
    if mutations:
        counts["mutations"] = mutations
    seconds = sum(float(suite.get("time") or 0) for suite in tree.iter("testsuite"))
    return counts | {"seconds": round(seconds)}


def with_earlier(row: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """A part of the mutations, with what is recorded of others, on the commits where it was."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=TOP, capture_output=True, text=True).stdout.strip()
    tried = [case | {"commit": commit} for case in row["mutations"]]
    new = {(case["file"], case["text"]) for case in tried}
    kept = [case for case in before["mutations"] if (case["file"], case["text"]) not in new]
    cases = sorted(kept + tried, key=lambda case: (case["file"], case["line"]))
    counts = Counter(case["outcome"] for case in cases)
    row |= {"cases": len(cases), "passed": counts["noticed"], "skipped": counts["harmless"]}
    commits = Counter(case.get("commit", "another") for case in cases)
    parts = ", ".join(f"{count} of commit {name}" for name, count in sorted(commits.items()))
    known = {(case["file"], case["text"]) for case in cases}
    untried = sum((place.file, place.changed_line()) not in known for place in chosen())
    row["note"] = f"changes tried: {parts}; {untried} that the seed drew are not tried yet"
    return row | {"mutations": cases}


def suite_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The table of environments."""
    shown = ("petsc", "mpi", "numpy")
    return [
        {"environment": name}
        | {package: row["versions"].get(package) for package in shown}
        | {"tests": row["cases"], "passed": row["passed"], "skipped": row["skipped"]}
        | {"seconds": row["seconds"]}
        for name, row in found.get("suite", {}).items()
    ]


def mutation_report(cases: list[dict[str, Any]]) -> list[str]:
    """Markdown about the places of numerical code that were changed, and what came of it."""
    folders: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        folders.setdefault(str(Path(case["file"]).parent), []).append(case)
    rows = []
    for folder, here in [*sorted(folders.items()), ("all", cases)]:
        row: dict[str, Any] = {"folder": folder, "modules": len({case["file"] for case in here})}
        row["places"] = sum({case["file"]: case["places"] for case in here}.values())
        row["changed"] = len(here)
        for outcome in ("noticed", "harmless", "not noticed"):
            row[outcome] = sum(case["outcome"] == outcome for case in here)
        rows.append(row)
    text = ["## Mutations", ""]
    text += [
        f"A sign, a factor or two indices can be changed at {rows[-1]['places']:,} places of "
        f"numerical code.  {len(cases)} were tried: a seed drew so many of each module, others are "
        "listed by hand; each was "
        "changed by itself, and the tests that reach it ran until one failed.  Nothing is known "
        "of the places that were not drawn.",
        "",
    ]
    text += [format_table(rows, markdown=True), ""]
    for outcome in ("harmless", "not noticed"):
        listed = [case for case in cases if case["outcome"] == outcome]
        if listed:
            text += [f"{outcome.capitalize()}:", ""]
        for case in listed:
            reason = f": {case['reason']}" if case.get("reason") else ""
            text.append(f"- `{case['file']}`, line {case['line']}, `{case['text']}`{reason}")
        text += [""] if listed else []
    return text


def report(found: dict[str, Any]) -> str:
    """Markdown of all that is recorded."""
    campaigns = found.get("campaigns", {})
    shown = ("cases", "passed", "skipped", "hangs", "tracebacks", "seconds")
    rows = [
        {"campaign": row["campaign"], "mpi": row["machine"]["versions"]["mpi"]}
        | {column: row[column] for column in shown}
        for row in campaigns.values()
    ]
    text = [
        "# Trials",
        "",
        "`scripts/trials` ran these campaigns of attacks, one after another.",
        "",
    ]
    text += [format_table(rows, markdown=True), ""]
    text += [f"{row['campaign']}: {row['note']}\n" for row in campaigns.values() if "note" in row]
    for row in campaigns.values():
        text += mutation_report(row["mutations"]) if "mutations" in row else []
    if "suite" in found:
        text += ["## The test suite in each environment", ""]
        text += ["`scripts/trials --suite NAME` ran all tests once.", ""]
        text += [format_table(suite_rows(found), markdown=True), ""]
    machines = [row["machine"] for row in campaigns.values()]
    if machines:
        text += ["## Machine", "", "```", json.dumps(machines[-1], indent=1), "```", ""]
    return "\n".join(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
