"""Preconditioner ``kronecker``: the Fisher matrix of a network, one Kronecker product per layer.

Martens and Grosse (2015), "Optimizing neural networks with Kronecker-factored
approximate curvature", in its block-diagonal form with factored Tikhonov damping.
Each layer belongs to one rank, which alone stores its factors, inverts them and
applies the inverse; the parts of a direction are then broadcast.

With inputs a and sampled derivatives g by the pre-activations the factors are ``A = E[a a']`` and
``G = E[g g']`` (MATHEMATICS.md).  With weights that serve at several places of a row (positions of
a convolution, steps of a recurrence) ``A = E[sum_t a_t a_t']`` and ``G = E[mean_t g_t g_t']``
(Grosse and Martens 2016, equation 30).
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

from thalweg.errors import InputError, NumericalError
from thalweg.interfaces import Capability, Objective, Preconditioner
from thalweg.parallel import Array, raise_on_all_ranks, sum_large
from thalweg.plugins import Help
from thalweg_saddlefree.capabilities import (
    AdaptiveDamping,
    LayerBlock,
    LayeredCurvature,
    LayerSample,
    krylov_type,
)


class Moments(NamedTuple):
    """Sums over rows, which the ranks add up: upper triangles, column-major."""

    inputs: np.ndarray  # sum of ``a a'``
    derivatives: np.ndarray  # sum of ``g g'`` over rows, mean over places

    @classmethod
    def zero(cls, block: LayerBlock, dtype: np.dtype) -> "Moments":
        """Sums over no rows."""
        sizes = (block.inputs, block.outputs)
        return cls(*(np.zeros((size, size), dtype, order="F") for size in sizes))

    def add(self, sample: LayerSample, block: LayerBlock) -> None:
        """Add the rows of a sample."""
        rows, places, _ = sample.inputs.shape
        a = sample.inputs.reshape(rows * places, -1)
        g = sample.derivatives.reshape(rows * places, -1)
        if block.bias:
            a = np.concatenate([a, np.ones((len(a), 1), a.dtype)], axis=1)
        _add_squares(np.ascontiguousarray(a), 1.0, self.inputs)
        _add_squares(np.ascontiguousarray(g), 1.0 / places, self.derivatives)


def _add_squares(rows: np.ndarray, factor: float, total: np.ndarray) -> None:
    """Add ``factor * rows' rows`` to the upper triangle of ``total``."""
    syrk = blas.dsyrk if total.dtype == np.float64 else blas.ssyrk
    if len(rows):
        syrk(factor, rows.T, beta=1.0, c=total, overwrite_c=1)


class LayerFactors(NamedTuple):
    """Moving averages of a layer's factors, and their damped inverses.

    The upper triangles count; column-major.
    """

    #: A and G.
    inputs: np.ndarray
    derivatives: np.ndarray
    #: Inverses of the damped A and G.
    left: np.ndarray
    right: np.ndarray

    @classmethod
    def zero(cls, block: LayerBlock, dtype: np.dtype) -> "LayerFactors":
        """Factors before the first average, of the shapes of later ones."""
        return cls(*Moments.zero(block, dtype), *Moments.zero(block, dtype))

    def averaged(self, mean: Moments, keep: float) -> "LayerFactors":
        """Averages moved towards new means over rows, with the part ``keep`` of the old ones."""
        return self._replace(
            inputs=keep * self.inputs + (1 - keep) * mean.inputs,
            derivatives=keep * self.derivatives + (1 - keep) * mean.derivatives,
        )

    def shifts(self, damping: float, xp: Any = np) -> tuple[float, float]:
        """What A and G are damped by, also in ``jax.numpy``.

        Martens and Grosse (2015), section 6.3: pi makes the damping of the product smallest.
        """
        a = xp.asarray(xp.trace(self.inputs), float) / len(self.inputs)
        g = xp.asarray(xp.trace(self.derivatives), float) / len(self.derivatives)
        known = (a > 0) & (g > 0)
        pi = xp.where(known, xp.sqrt(xp.where(known, a, 1) / xp.where(known, g, 1)), 1)
        return pi * xp.sqrt(damping), xp.sqrt(damping) / pi

    def inverted(self, damping: float) -> "LayerFactors":
        """The factors with their inverses at a damping."""
        if not (np.isfinite(self.inputs).all() and np.isfinite(self.derivatives).all()):
            raise NumericalError(
                "a Kronecker factor is not finite: the network's activations or derivatives "
                "overflow; start from smaller weights or scale the data"
            )
        a, g = self.shifts(damping)
        return self._replace(left=_inverse(self.inputs, a), right=_inverse(self.derivatives, g))

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """Damped inverse times a gradient of the layer's shape."""
        symm = blas.dsymm if gradient.dtype == np.float64 else blas.ssymm
        # BLAS is column-major: it sees the transpose of the gradient.
        turned = symm(1.0, self.right, gradient.T, side=0, lower=0)
        return np.asarray(symm(1.0, self.left, turned, side=1, lower=0, overwrite_c=1).T)


def _inverse(matrix: np.ndarray, shift: float) -> np.ndarray:
    """Inverse of ``matrix + shift I`` by Cholesky's method; upper triangles, column-major.

    In the precision of the matrix, or in double where that fails.
    """
    for dtype in (matrix.dtype, np.dtype(float)):
        shifted = np.array(matrix, dtype=dtype, order="F")
        shifted.flat[:: len(shifted) + 1] += shift
        potrf, potri = lapack.get_lapack_funcs(("potrf", "potri"), (shifted,))
        factor, failed = potrf(shifted, lower=0, overwrite_a=1)
        if failed:
            continue
        upper, failed = potri(factor, lower=0, overwrite_c=1)
        if not failed and np.isfinite(upper).all():
            return np.asfortranarray(upper, dtype=matrix.dtype)
    least = scipy.linalg.eigvalsh(matrix.astype(float), lower=False, subset_by_index=(0, 0))
    raise NumericalError(
        f"a Kronecker factor is not positive definite with damping {shift:.2e} (least eigenvalue "
        f"{float(least[0]):.2e}); raise the damping of the preconditioner"
    )


#: Factor by which the damping moves before the inverses are renewed out of turn; chosen by hand.
MOVED = 8.0

#: What it remembers beside the factors.
COUNTERS = {"count": int, "inverted": int, "wanted_damping": float, "used_damping": float}


class KroneckerPreconditioner(Preconditioner, AdaptiveDamping):
    """Preconditioner ``kronecker``.

    A solver with a damping of its own (``saddle-free-subspace``) sets it in place of ``damping``.

    Raises
    ------
    InputError
        Options out of range; a variable that the layers do not cover.
    """

    requires: ClassVar[tuple[type[Capability], ...]] = (LayeredCurvature,)

    def __init__(
        self,
        damping: Annotated[
            float, Help("damping added to the approximate Fisher matrix", unit="curvature", above=0)
        ] = 1e-2,
        decay: Annotated[
            float, Help("share of the old factors that an update keeps", minimum=0, below=1)
        ] = 0.95,
        inverse_every: Annotated[
            int, Help("updates between inversions of the factors; fewer at first", minimum=1)
        ] = 20,
        seed: Annotated[int, Help("seed of the sampled targets", minimum=0)] = 0,
    ) -> None:
        self.damping, self.decay = damping, decay
        self.inverse_every, self.seed = inverse_every, seed
        self.__post_init__()

    def setup(self, objective: Objective, x: Array) -> None:
        """Assign the layers to the ranks; factors come with the first update."""
        assert isinstance(objective, LayeredCurvature)
        covered = 0
        for block in sorted(objective.layers, key=lambda block: block.start):
            covered = block.stop if block.start == covered else -1
        if covered != objective.layout.size:
            raise InputError(
                f"the layers of {type(objective).__name__} do not cover its variables one after "
                "the other, so that they have no Kronecker metric; describe every layer"
            )
        self.objective, self.blocks = objective, tuple(objective.layers)
        self.owners = owners(self.blocks, objective.comm.size)
        #: Factors of this rank's layers, by layer.
        dtype, rank = krylov_type(objective), objective.comm.rank
        self.factors = {
            layer: LayerFactors.zero(block, dtype)
            for layer, block in enumerate(self.blocks)
            if self.owners[layer] == rank
        }
        self.count = self.inverted = 0
        #: Dampings for the next inversion and of the last.
        self.wanted_damping, self.used_damping = self.damping, 0.0

    def damp(self, damping: float) -> None:
        self.wanted_damping = damping

    def update(self, x: Array) -> None:
        """Average the factors of the curvature rows at ``x``; invert them when it is time."""
        objective: Any = self.objective
        sums = [Moments.zero(block, krylov_type(objective)) for block in self.blocks]
        for sample in objective.layer_samples(x, (self.seed << 32) + self.count):
            sums[sample.layer].add(sample, self.blocks[sample.layer])
        total = objective.curvature_row_count
        self.count += 1
        keep = min(1.0 - 1.0 / self.count, self.decay)
        comm = objective.comm
        for layer, moments in enumerate(sums):
            for array in (moments.inputs, moments.derivatives):
                # Column-major memory is handed over as it lies.
                sum_large(comm, array.T, root=self.owners[layer])
                array /= total
            if self.owners[layer] == comm.rank:
                self.factors[layer] = self.factors[layer].averaged(moments, keep)
        if not self.due(self.count, self.inverted, self.wanted_damping, self.used_damping):
            return
        self.inverted, self.used_damping = self.count, self.wanted_damping
        with raise_on_all_ranks(comm):
            self.factors = {
                layer: factors.inverted(self.wanted_damping)
                for layer, factors in self.factors.items()
            }

    def due(self, count: Any, inverted: Any, wanted: Any, used: Any, xp: Any = np) -> Any:
        """Whether to invert at an update, also in ``jax.numpy``.

        From its number, that of the last inversion, and the damping now and then.
        """
        # Factors change fastest at the beginning, when they are averages of few samples.
        wait = xp.minimum(self.inverse_every, xp.maximum(1, inverted // 2))
        moved = xp.maximum(wanted, used) > MOVED * xp.minimum(wanted, used)
        return moved | (count - inverted >= wait)

    def apply(self, residual: Array) -> Array:
        """Each rank solves with its own layers; every rank gets the whole."""
        if not self.count:
            raise RuntimeError("update must be called before apply")
        comm = self.objective.comm
        direction = np.empty(residual.size)
        for layer, factors in self.factors.items():
            block = self.blocks[layer]
            gradient = residual.reshape(-1)[block.start : block.stop]
            gradient = gradient.reshape(block.inputs, block.outputs).astype(factors.inputs.dtype)
            direction[block.start : block.stop] = factors.solve(gradient).ravel()
        if comm.size > 1:
            for block, owner in zip(self.blocks, self.owners, strict=True):
                comm.Bcast(direction[block.start : block.stop], root=owner)
        return direction.reshape(residual.shape)

    def state(self) -> Mapping[str, Any]:
        """Counters, and every layer's factors and inverses, gathered on all ranks."""
        comm, layers = self.objective.comm, list[Any]()
        for layer, owner in enumerate(self.owners):
            own = self.factors.get(layer)
            layers.append(comm.bcast(None if own is None else own._asdict(), root=owner))
        return {**{name: getattr(self, name) for name in COUNTERS}, "layers": layers}

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, kind in COUNTERS.items():
            setattr(self, name, kind(state[name]))
        self.factors = {
            layer: LayerFactors(**content)
            for layer, content in enumerate(state["layers"])
            if self.owners[layer] == self.objective.comm.rank
        }

    def close(self) -> None:
        self.factors, self.count = {}, 0


def owners(blocks: tuple[LayerBlock, ...], ranks: int) -> list[int]:
    """The rank that each layer belongs to: the most expensive first, to the least busy rank."""
    cost = [block.inputs**3 + block.outputs**3 for block in blocks]
    load, owner = [0] * ranks, [0] * len(blocks)
    for layer in sorted(range(len(blocks)), key=lambda layer: (-cost[layer], layer)):
        rank = int(np.argmin(load))
        owner[layer] = rank
        load[rank] += cost[layer]
    return owner
