"""Jobs: what a configuration asks for, built, run, and left in a run directory."""

from thalweg.job.comparison import compare
from thalweg.job.directory import RunDirectory, cite
from thalweg.job.pictures import plot
from thalweg.job.running import run

__all__ = ["RunDirectory", "cite", "compare", "plot", "run"]
