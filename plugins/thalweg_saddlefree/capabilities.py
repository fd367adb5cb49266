"""Capabilities of objectives that this family's methods use beside the framework's."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from thalweg.errors import InputError
from thalweg.interfaces import Capability, Objective, Preconditioner, SolverState
from thalweg.parallel import Array
from thalweg.plugins import Help
from thalweg_saddlefree.curvature import Slices
from thalweg_saddlefree.minibatches import Minibatches, RowSet


class GradientSquares(ABC):
    """An objective that knows the mean squared derivative of its rows' losses.

    Martens (2010), section 4.7: the diagonal of the empirical Fisher matrix.
    """

    @abstractmethod
    def gradient_squares(self, x: Array) -> Array:
        """The mean over rows of the squared derivatives."""


def mean_gradient_squares(objective: Objective, x: Array, slices: Slices) -> np.ndarray | None:
    """This rank's slice of them, or None where the objective does not know them.  Collective."""
    if not isinstance(objective, GradientSquares):
        return None
    return slices.take(objective.gradient_squares(x))


def krylov_type(objective: Objective) -> np.dtype[Any]:
    """Type of Krylov vectors: that of the objective's products, in which networks compute."""
    return np.dtype(getattr(objective, "dtype", np.float64))


@dataclass(frozen=True)
class Forms:
    """``directions[i]' B directions[j]``, shape ``(k, k)``, for the two choices of B."""

    #: None where the objective has no such matrix, or where it was not asked for.
    gauss_newton: np.ndarray | None
    hessian: np.ndarray | None


class CurvatureForms(ABC):
    """An objective that forms ``V'BV`` for a few directions at less than a product each.

    For a network it takes the forward half of one (Martens and Grosse 2015, appendix C).
    """

    @abstractmethod
    def curvature_forms(self, x: Array, directions: Sequence[Array], hessian: bool) -> Forms:
        """The forms of both matrices over the curvature rows; the Hessian's only if asked for.

        Collective; the same on all ranks.
        """


@dataclass(frozen=True)
class LayerBlock:
    """Position of a layer's weights among the variables: a row-major matrix."""

    start: int  # first of its variables
    #: Shape of the matrix. With ``bias``, its last row belongs to an input that is 1.
    inputs: int
    outputs: int
    bias: bool  # whether there is such a row

    @property
    def stop(self) -> int:
        """One past the last of its variables."""
        return self.start + self.inputs * self.outputs


@dataclass(frozen=True)
class LayerSample:
    """Inputs of a layer and sampled derivatives by its pre-activations, for some rows."""

    layer: int  # index of its :class:`LayerBlock`
    #: Shape ``(rows, places, inputs)``, without the 1 of the bias. A dense layer has one place; a
    #: convolution has one for every position of its kernel, a recurrent layer one for every time
    #: step.
    inputs: np.ndarray
    derivatives: np.ndarray  # shape ``(rows, places, outputs)``


class LayeredCurvature(Capability):
    """A network whose layers show what their Fisher matrix is made of."""

    phrase = "network of layers with a Kronecker-factored Fisher matrix"

    #: Their weights; together they are all variables, one after the other.
    layers: Sequence[LayerBlock]

    @property
    @abstractmethod
    def curvature_row_count(self) -> int:
        """Rows that :meth:`layer_samples` covers, over all ranks."""

    @abstractmethod
    def layer_samples(self, x: Array, draw: int) -> Iterator[LayerSample]:
        """Samples of this rank's curvature rows, each row of every layer once.

        The derivatives are those of a loss whose targets are sampled from the model's own
        prediction, or of any other random vector of mean zero whose covariance is the Hessian of
        the loss by the outputs. They depend on ``draw`` and the global row, not on the ranks.
        """


def draw_curvature_rows(objective: Objective, seed: int, counter: int, rows: int | None) -> None:
    """Let values and gradients see all data rows, and curvature products a sample of them.

    Martens (2010), section 4.4: the sample hardly changes the direction and costs far less.  It
    does not depend on the ranks; None stands for all rows.
    """
    if not isinstance(objective, Minibatches):
        if rows is not None:
            raise InputError(f"{type(objective).__name__} has no data rows to sample; give none")
        return
    layout, sample = objective.data_layout, None
    if rows is not None and rows < layout.rows:
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(counter,)))
        chosen = np.sort(stream.choice(layout.rows, size=rows, replace=False))
        sample = RowSet(layout.own(chosen), rows)
    objective.use_rows(None, sample)


def use_all_rows(objective: Objective) -> None:
    """Let values and curvature see all rows, as they did before a run that drew some."""
    if isinstance(objective, Minibatches):
        objective.use_rows(None)


@dataclass(frozen=True)
class CurvatureRowsSolver:
    """Mixin of solvers whose curvature products see drawn rows; by default not preconditioned."""

    curvature_rows: Annotated[
        int | None,
        Help("number of data rows of curvature products; by default all", unit="rows", minimum=1),
    ] = None
    seed: Annotated[int, Help("seed of samples and probes", minimum=0)] = 0
    preconditioner: Preconditioner | None = None

    preconditioned: ClassVar[bool] = True

    @classmethod
    def takes_preconditioner(cls, options: Mapping[str, Any]) -> bool:
        return False

    def close(self, state: SolverState) -> None:
        use_all_rows(state.objective)


class AdaptiveDamping(ABC):
    """A preconditioner whose damping a solver may set as it goes."""

    @abstractmethod
    def damp(self, damping: float) -> None:
        """Add so many times the identity to the matrix, from its next update on or later."""
