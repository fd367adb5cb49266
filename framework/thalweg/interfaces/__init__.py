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
    missing_capabilities,
    require,
)
from thalweg.interfaces.manifold import (
    EigenvectorFixedPoint,
    Manifold,
    ManifoldVariable,
    Stiefel,
    StiefelVariable,
)
from thalweg.interfaces.minibatches import (
    STOCHASTIC_COLUMNS,
    BatchSchedule,
    EpochOrder,
    Minibatches,
    RowSet,
    StochasticState,
    random_signs,
    value_over_all_rows,
)
from thalweg.interfaces.objective import Objective, RowObjective
from thalweg.interfaces.preconditioner import Preconditioner
from thalweg.interfaces.solver import DISTRIBUTED, TRANSIENT, Solver, SolverState

__all__ = [
    "DISTRIBUTED", "STOCHASTIC_COLUMNS", "TRANSIENT", "Alternation", "AttractiveLaplacian",
    "BatchSchedule", "Capability", "EigenvectorFixedPoint", "EpochOrder", "GaussNewtonProduct",
    "HessianDiagonal", "HessianProduct", "Homotopy", "Manifold", "ManifoldVariable", "Minibatches",
    "Objective", "Preconditioner", "RepulsiveBlocks", "RowObjective", "RowSet", "SecantConstraints",
    "Solver", "SolverState", "Stiefel", "StiefelVariable", "StochasticState",
    "missing_capabilities", "random_signs", "require", "value_over_all_rows",
]  # fmt: skip
