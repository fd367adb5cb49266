"""Tables line up, in a terminal and in Markdown."""

from dataclasses import replace

import numpy as np

from thalweg.parallel import MPI, Layout
from thalweg.result import Result, Status, Trace
from thalweg.workbench.report import comparison_rows, format_table

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


def test_a_comparison_names_method_value_cost_and_status():
    layout = Layout(MPI.COMM_SELF, 1, 1)
    result = Result(
        x=np.zeros((1, 1)),
        objective=0.5,
        status=Status.SMALL_GRADIENT,
        trace=Trace(["objective"]),
        iterations=7,
        evaluations=9,
        seconds={"setup": 0.23456, "optimize": 1.0, "checkpoint": 5.0, "total": 6.23456},
        layout=layout,
    )
    (row,) = comparison_rows({"lbfgs": result})
    assert list(row) == ["method", "objective", "iterations", "evaluations", "seconds", "status"]
    assert format_table([row]).splitlines()[-1].split() == [
        "lbfgs", "0.5", "7", "9", "1.23", "small_gradient",
    ]  # fmt: skip
    (row,) = comparison_rows({"lbfgs": replace(result, stages_left=1)})
    assert format_table([row]).splitlines()[-1].split()[1] == "–"  # another function's value
