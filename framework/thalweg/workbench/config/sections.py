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
        "abort the run, with a traceback of each rank, when one evaluation or the set-up takes "
        "longer than this; 0: never",
        unit="s",
        minimum=0,
    ),
)

OUTPUT_OPTIONS = (
    Option("dir", str, None, "folder of the results"),
    Option("pictures", bool, True, "draw the result and the convergence"),
    Option("animation", bool, False, "write an animation of the optimization"),
)

HOMOTOPY_OPTIONS = (
    Option(
        "values",
        list,
        None,
        "values of the homotopy parameter in order, instead of first and stages",
        entries=float,
        minimum=0,
    ),
    Option("first", float, None, "first value; the last is the option of the objective", above=0),
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
    "data", "objective", "preconditioner", "solver", "homotopy", "stop", "run", "output", "method",
)  # fmt: skip
