"""The three interfaces, and the capabilities that connect them."""

from thalweg.capability import Capability, missing_capabilities, require
from thalweg.interfaces.capabilities import Homotopy, Manifold, ManifoldVariable
from thalweg.interfaces.objective import Objective
from thalweg.interfaces.preconditioner import Preconditioner
from thalweg.interfaces.solver import TRANSIENT, OwnRows, Rows, Solver, SolverState

__all__ = [
    "TRANSIENT", "Capability", "Homotopy", "Manifold", "ManifoldVariable", "Objective", "OwnRows",
    "Preconditioner", "Rows", "Solver", "SolverState", "missing_capabilities", "require",
]  # fmt: skip
