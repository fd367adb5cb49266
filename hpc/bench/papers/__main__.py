"""Writes ``hpc/results/papers.md`` from the records; ``scripts/bench papers`` calls it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from hpc.bench.papers.page import RECORDS, RESULTS, page


def records() -> dict[str, Any]:
    """What the benchmarks recorded, by family."""
    return {
        name: json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in RECORDS
    }


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` say whether it is up to date."""
    parser = argparse.ArgumentParser(prog="scripts/bench papers", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if old")
    check = parser.parse_args(arguments).check
    file, new = RESULTS / "papers.md", page(records())
    if check:
        return int(not file.exists() or file.read_text(encoding="utf-8") != new)
    file.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
