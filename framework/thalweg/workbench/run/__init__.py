"""Jobs: what a configuration asks for, built, run, and left in a run directory."""

from thalweg.workbench.run.comparison import compare
from thalweg.workbench.run.directory import RunDirectory, cite
from thalweg.workbench.run.pictures import plot
from thalweg.workbench.run.single_run import run

__all__ = ["RunDirectory", "cite", "compare", "plot", "run"]
