"""The guide's code runs as it stands, at any number of ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "plugins" / "thalweg_descent" / "README.md"


@pytest.mark.ranks(1, 2)
def test_the_code_of_the_guide_runs(comm):
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.S)
    assert blocks
    exec(compile("\n".join(blocks), str(GUIDE), "exec"), {})
