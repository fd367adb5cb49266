"""The README's results, written from the recorded JSON; ``scripts/bench --readme`` calls it.

Each family has a module ``summary`` with a function of the same name, which turns its
recorded results into the paragraphs that stand in the README between the comments
``<!-- results: FAMILY -->`` and ``<!-- end of results -->``.  So a figure in the README
cannot differ from what was recorded.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
RESULTS = ROOT / "hpc" / "results"

WIDTH = 106
_WRAP: dict[str, bool] = {"break_long_words": False, "break_on_hyphens": False}

_REGION = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def with_results(text: str) -> str:
    """``text`` with the paragraphs of every family that it mentions written again.

    Raises
    ------
    ValueError
        No family is mentioned, or one that has no benchmark.
    """
    if not _REGION.search(text):
        raise ValueError("the README has no comment '<!-- results: FAMILY -->'")

    def written(region: re.Match[str]) -> str:
        begin, family, end = region.groups()
        if not (ROOT / "hpc" / "bench" / family / "summary.py").exists():
            raise ValueError(f"the README asks for the results of '{family}', which has no summary")
        module = importlib.import_module(f"hpc.bench.{family}.summary")
        found = json.loads((RESULTS / f"{family}.json").read_text(encoding="utf-8"))
        return f"{begin}{_wrapped(module.summary(found))}\n{end}"

    return _REGION.sub(written, text)


def _wrapped(text: str) -> str:
    """Paragraphs in lines of the README's width; tables and pictures as they are."""
    blocks = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(
        block if block[0] in "|!" else textwrap.fill(" ".join(block.split()), WIDTH, **_WRAP)
        for block in blocks
    )


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
