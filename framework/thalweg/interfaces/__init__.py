"""The three interfaces, and the capabilities that connect them."""

from thalweg.capability import Capability, missing_capabilities, require
from thalweg.interfaces.homotopy import Homotopy
from thalweg.interfaces.manifold import Manifold, ManifoldVariable
from thalweg.interfaces.objective import Objective, RowObjective
from thalweg.interfaces.preconditioner import Preconditioner
from thalweg.interfaces.solver import DISTRIBUTED, TRANSIENT, Solver, SolverState

__all__ = [
    "DISTRIBUTED", "TRANSIENT", "Capability", "Homotopy", "Manifold", "ManifoldVariable",
    "Objective", "Preconditioner", "RowObjective", "Solver", "SolverState",
    "missing_capabilities", "require",
]  # fmt: skip
