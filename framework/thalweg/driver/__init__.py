"""The one loop that runs every solver, and what surrounds it."""

from thalweg.driver.checkpoint import Checkpoints
from thalweg.driver.homotopy import HomotopySchedule
from thalweg.driver.loop import drive
from thalweg.driver.minimize import minimize
from thalweg.driver.progress import Iterate
from thalweg.driver.stopping import STOP_OPTIONS, Stop

__all__ = [
    "STOP_OPTIONS", "Checkpoints", "HomotopySchedule", "Iterate", "Stop", "drive", "minimize",
]  # fmt: skip
