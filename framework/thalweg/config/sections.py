"""The sections of a configuration that the framework itself defines."""

from __future__ import annotations

from thalweg.driver import STOP_OPTIONS
from thalweg.plugins import Option

RUN_OPTIONS = (
    Option("seed", int, 0, "seed of the starting point", minimum=0),
    Option("start", str, None, "npy file with the starting point, instead of a random one"),
    Option(
        "checkpoint", float, 60.0, "time between checkpoints", unit="s", minimum=0, finite=False
    ),
    Option("petsc", str, None, "options for PETSc, written as on its command line"),
    Option(
        "watchdog",
        float,
        0.0,
        "end the run, and show where each rank stands, when it takes longer than this for one "
        "evaluation or for the set-up; 0 never",
        unit="s",
        minimum=0,
    ),
)

OUTPUT_OPTIONS = (
    Option("dir", str, None, "folder of the results"),
    Option("pictures", bool, True, "draw the result and its convergence"),
    Option("animation", bool, False, "draw the optimization as a moving picture"),
)

HOMOTOPY_OPTIONS = (
    Option(
        "values",
        list,
        None,
        "values of the homotopy parameter, instead of first and stages",
        entries=float,
        minimum=0,
    ),
    Option("first", float, None, "first value; the last is the objective's own", above=0),
    Option("stages", int, 1, "number of values, spaced evenly in the logarithm", minimum=1),
    Option("iterations", int, 10_000, "maximum number of iterations of a stage", minimum=1),
    Option("decrease", float, 1e-6, "relative decrease that ends a stage", minimum=0),
)

#: Sections with fixed options; data, objective, preconditioner and solver depend on names.
FIXED = {
    "stop": STOP_OPTIONS,
    "run": RUN_OPTIONS,
    "output": OUTPUT_OPTIONS,
    "homotopy": HOMOTOPY_OPTIONS,
}

#: All sections, in the order in which they are written.
SECTIONS = (
    "data",
    "objective",
    "preconditioner",
    "solver",
    "homotopy",
    "stop",
    "run",
    "output",
    "method",
)
