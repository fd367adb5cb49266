"""The guide of this family: its code runs, and every solver and preconditioner is in it."""

import re
from pathlib import Path

import thalweg_saddlefree.plugin as plugin

GUIDE = (Path(plugin.__file__).parent / "README.md").read_text(encoding="utf-8")


def test_the_code_of_the_guide_runs():
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


def test_the_guide_names_every_method():
    for spec in (*plugin.thalweg_solvers(), *plugin.thalweg_preconditioners()):
        assert f"`{spec.name}`" in GUIDE
