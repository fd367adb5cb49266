"""The README's results, written from the recorded JSON; ``scripts/bench --readme`` calls it.

Each family has a module ``summary`` with a function ``rows``, which turns its recorded
results into rows of the table between the comments ``<!-- results -->`` and
``<!-- end of results -->``.  So a figure in the README cannot differ from what was recorded.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
RESULTS = ROOT / "hpc" / "results"

#: Families in the order of the table, and what they are called there.
FAMILIES = {
    "embedding": "Embeddings",
    "isometry": "Near-isometric maps",
    "clustering": "Alternative clustering",
    "saddlefree": "Saddle-free training",
}

_REGION = re.compile(r"(<!-- results -->\n).*?(<!-- end of results -->)", re.DOTALL)


def with_results(text: str) -> str:
    """``text`` with the table of results written again.

    Raises
    ------
    ValueError
        There is no place for it.
    """
    if not _REGION.search(text):
        raise ValueError("the README has no comment '<!-- results -->'")
    lines = ["| what was measured | thalweg | others |", "|---|---|---|"]
    for family, title in FAMILIES.items():
        module = importlib.import_module(f"hpc.bench.{family}.summary")
        records = json.loads((RESULTS / f"{family}.json").read_text(encoding="utf-8"))
        lines.append(f"| **[{title}](hpc/results/{family}.md)** | `scripts/bench {family}` | |")
        lines += [f"| {' | '.join(row)} |" for row in module.rows(records)]
    table = "\n".join(lines)
    return _REGION.sub(lambda region: f"{region[1]}{table}\n{region[2]}", text)


def main(arguments: list[str]) -> int:
    """Write the README's results, or with ``--check`` say whether they are up to date."""
    parser = argparse.ArgumentParser(prog="scripts/bench --readme", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if old")
    check = parser.parse_args(arguments).check
    old = README.read_text(encoding="utf-8")
    new = with_results(old)
    if check:
        return int(new != old)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
