"""The three interfaces, and the capabilities that connect them."""

from thalweg.interfaces.capabilities import (
    Alternation,
    AttractiveLaplacian,
    Capability,
    GaussNewtonProduct,
    HessianDiagonal,
    HessianProduct,
    Homotopy,
    RepulsiveBlocks,
    SecantConstraints,
    SpectralFixedPoint,
    StiefelVariable,
)
from thalweg.interfaces.objective import Objective, RowObjective
from thalweg.interfaces.preconditioner import Preconditioner
from thalweg.interfaces.requirements import missing_capabilities, require
from thalweg.interfaces.solver import TRANSIENT, Solver, SolverState

__all__ = [
    "TRANSIENT",
    "Alternation",
    "AttractiveLaplacian",
    "Capability",
    "GaussNewtonProduct",
    "HessianDiagonal",
    "HessianProduct",
    "Homotopy",
    "Objective",
    "Preconditioner",
    "RepulsiveBlocks",
    "RowObjective",
    "SecantConstraints",
    "Solver",
    "SolverState",
    "SpectralFixedPoint",
    "StiefelVariable",
    "missing_capabilities",
    "require",
]
