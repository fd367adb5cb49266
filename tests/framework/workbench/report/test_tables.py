"""Tables line up, in a terminal and in Markdown."""

import numpy as np

from thalweg.workbench.report import format_table

ROWS = [
    {"method": "lbfgs + spectral", "objective": 1.23456789, "evaluations": 1234},
    {"method": "gd", "objective": float("nan"), "evaluations": None},
]


def test_columns_line_up_and_numbers_stand_to_the_right():
    assert format_table(ROWS).splitlines() == [
        "method            objective  evaluations",
        "────────────────  ─────────  ───────────",
        "lbfgs + spectral    1.23457        1,234",
        "gd                        –            –",
    ]


def test_markdown_marks_columns_of_numbers():
    lines = format_table([{"a|b": "x|y", "n": np.int64(3)}], markdown=True).splitlines()
    assert lines == ["| a\\|b |   n |", "| ---- | --: |", "| x\\|y |   3 |"]
