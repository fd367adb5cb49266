"""The guide's examples run as they stand, on one rank and on several."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[3] / "framework" / "thalweg" / "parallel" / "README.md"


@pytest.mark.ranks(1, 2, 3)
def test_the_examples_of_the_guide_run(comm):
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)


def test_the_guide_names_every_engine():
    from thalweg import parallel

    text = GUIDE.read_text(encoding="utf-8")
    engines = [name for names in parallel._ENGINES.values() for name in names]
    missing = [name for name in engines if not re.search(rf"`{name}[`(]", text)]
    assert set(missing) <= {"RingBlock", "Tile", "remove_shift"}
