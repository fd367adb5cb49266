"""The generic embedding objective: attraction of neighbors, repulsion of all.

Vladymyrov and Carreira-Perpinan's formulation E(X; lambda) = E+(X) + lambda E-(X),
with both terms sums of scalar functions of squared distances:

    E+ = sum p_nm f(d_nm),    E- = sum w_nm g(d_nm)   or   log sum g(d_nm),

over ordered pairs n != m of rows of the N x d map X, d_nm = ||x_n - x_m||^2.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thalweg.engines.hessian import HessianDiagonal, HessianProduct
from thalweg.engines.laplacian import AttractiveLaplacian
from thalweg.engines.neighbors import nearest_neighbors
from thalweg.errors import InputError
from thalweg.interfaces import Homotopy, Objective
from thalweg.numerics import inner_products
from thalweg.parallel import Array, Layout, agreed, min_over_ranks, sketch, sum_over_ranks
from thalweg_embedding.affinities.symmetric import Weights
from thalweg_embedding.defaults import ROWS_PER_STEP, STAGE_ITERATIONS, START_SCALE
from thalweg_embedding.families import stop_name
from thalweg_embedding.options import AffinityOptions
from thalweg_embedding.pairs.all_pairs import AllPairs, PointwiseLogarithms
from thalweg_embedding.pairs.cells import bounding_box
from thalweg_embedding.pairs.density import DensityCorrelation
from thalweg_embedding.pairs.pair_sum import PairSum, SecondOrder
from thalweg_embedding.preconditioners.partial_hessian import RepulsiveBlocks
from thalweg_embedding.relocation import Relocation, RowMatrix, degrees_and_free
from thalweg_embedding.start import Start

PRODUCT, DIAGONAL, CONVEX_PRODUCT, CONVEX_DIAGONAL = SecondOrder

#: Below this the sum of an exponential repulsion is computed again, shifted.
TINY = 1e-280

#: Deviation of a flat map along its narrowest direction, as a share of its widest side.
FLAT = 1e-6

#: Terms of a point: its neighbors' and, in time, those of a mesh.
TERMS_OF_POINT = 300

#: Side of a map, relative to one whose points are a unit apart, beyond which it is mostly empty:
#: the maps of usual runs have 1 to 5 times that.
INFLATED = 10.0


class PairwiseEmbedding(
    Objective, HessianProduct, HessianDiagonal, AttractiveLaplacian, RepulsiveBlocks, Homotopy
):
    """E(X) = constant + sum p_nm f(d_nm) + lambda E-(X), less a term of densities if wanted.

    Parameters
    ----------
    layout, weights
        Rows and dimension of the map, and this rank's rows of the attractive weights p: symmetric,
        non-negative, zero diagonal; CSR or dense, shape (local_rows, rows), in order of ``places``.
    attraction, repulsion
        The sums of f, weighted by ``weights``, and of g.
    normalized, lambda_, repulsion_scale
        Whether E- is the logarithm of the sum of g (s-SNE, t-SNE) or the sum itself; its weight;
        and the factor of a sum, for instance 1/(N (N - 1)).
    constant
        Added to the value, for instance sum p log p to make it a KL divergence.
    start
        Starting map.
    stages
        Factors of ``lambda_`` that a run passes through when the user asks for none.
    stop
        Stopping rules that hold where the user gives none of their names.
    density, density_weight
        A correlation of local densities, and its weight: that many times it is subtracted, at
        the wanted lambda, and not in the stages before, while the map unfolds.
    places
        Where the rows of sparse weights lie, if not where the map's do.

    Notes
    -----
    Gradient and Hessian are in MATHEMATICS.md, "The objectives"; the Hessian's last term has
    G_n = sum_m g' (x_n - x_m).
    """

    #: How the weights were made from points, if they were.
    options: AffinityOptions | None = None

    anchors: Any = None  # places of points that have one of their own

    default_stage_iterations = STAGE_ITERATIONS

    def __init__(
        self,
        layout: Layout,
        weights: Weights,
        attraction: PairSum,
        repulsion: PairSum,
        *,
        normalized: bool,
        lambda_: float = 1.0,
        repulsion_scale: float = 1.0,
        constant: float = 0.0,
        start: Start | None = None,
        stages: Sequence[float] = (),
        stop: Mapping[str, Any] | None = None,
        density: DensityCorrelation | None = None,
        density_weight: float = 0.0,
        label: str = "",
        places: Relocation | None = None,
    ) -> None:
        super().__init__(layout.comm, layout)
        self.weights = weights
        self.places = places
        self.attraction = attraction
        self.repulsion = repulsion
        for part in getattr(repulsion, "parts", (repulsion,)):
            part.note = self.note
        self.normalized = normalized
        self.constant = constant
        self.repulsion_scale = float(repulsion_scale)
        self.density = density
        self._density_weight = float(density_weight)
        self.label = label
        self._last = (math.nan, math.nan, math.nan)  # value and terms of the last evaluation
        self._lambda = float(lambda_)
        self._final_lambda = float(lambda_)
        self.start = start if start is not None else Start(layout)
        self.stages = tuple(stages)
        self._stop = dict(stop or {})

    @property
    def terms(self) -> float:
        """Pairs of points of which an evaluation sums terms, or the like of them for a mesh."""
        rows = self.layout.rows
        all_pairs = isinstance(self.repulsion, AllPairs | PointwiseLogarithms)
        return rows * (2.0 * rows if all_pairs else TERMS_OF_POINT) / self.comm.size

    # -- value and gradient ----------------------------------------------------------------

    def initial_point(self, seed: int) -> Array:
        """The start chosen at construction, by default small random numbers.

        To one that has collapsed, small random numbers are added: it would grow too slowly for the
        rules that end a run.
        """
        rows = self.start.rows(seed)
        apart = self._moved_apart(rows)
        if apart is not rows and self.layout.rows > 2:
            self.note(f"the start was flat, or narrower than {START_SCALE:g}: noise was added")
        return apart

    def value(self, x: Array) -> float:
        attracted, repelled = self.attraction.total(x), self._repelled(x, False)[0]
        term = self._density_term()
        return self._summed(attracted, repelled, 0.0 if term is None else term.total(x))

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        attracted, gradient = self.attraction.total_and_slopes(x)
        repelled, factor, _, slopes = self._repelled(x, True)
        gradient += self._lambda * factor * slopes
        correlation = 0.0
        if (term := self._density_term()) is not None:
            correlation, slopes = term.total_and_slopes(x)
            gradient -= self._density_weight * slopes
        return self._summed(attracted, repelled, correlation), 4.0 * gradient

    def _summed(self, attracted: float, repelled: float, correlation: float) -> float:
        value = self.constant + attracted + self._lambda * repelled
        value -= self._density_weight * correlation
        self._last = value, attracted, repelled
        return value

    def _repelled(self, x: Array, slopes: bool) -> tuple[float, float, float, Array]:
        """E-, the factor c of its derivatives (1/Z or 1), the shift they have, and the slopes."""
        shift = 0.0
        total, gradient_rows = self.repulsion.first_order(x, shift, slopes)
        if not self.normalized:
            return total * self.repulsion_scale, self.repulsion_scale, shift, gradient_rows
        if total < TINY * self.layout.rows and self.repulsion.function.exponential:
            _, squared = nearest_neighbors(self.layout, x, 1)
            shift = min_over_ranks(self.comm, float(squared.min(initial=math.inf)))
            total, gradient_rows = self.repulsion.first_order(x, shift, slopes)
        if not total > 0.0:
            # Nothing is left of the repulsion: a barrier, from which a line search returns.
            return math.inf if total == 0.0 else math.nan, 0.0, shift, gradient_rows
        return math.log(total) - shift, 1.0 / total, shift, gradient_rows

    def _density_term(self) -> DensityCorrelation | None:
        """The correlation of densities where it counts: at the wanted lambda."""
        return self.density if self._lambda >= self._final_lambda else None

    # -- second derivatives ----------------------------------------------------------------

    def hessian_product(self, x: Array, direction: Array) -> Array:
        """H(x) ``direction``, at the cost of two gradients."""
        self._refuse_densities()
        product = self.attraction.second_order(PRODUCT, x, direction, 0.0)
        return 4.0 * (product + self._lambda * self._repulsive_part(PRODUCT, x, direction))

    def _repulsive_part(self, kind: SecondOrder, x: Array, direction: Array) -> Array:
        """A quarter of second derivatives of E-; of a logarithm's convex part what the sum has."""
        if not self.normalized:
            return self.repulsion_scale * self.repulsion.second_order(kind, x, direction, 0.0)
        _, factor, shift, slopes = self._repelled(x, not kind.convex)
        part = factor * self.repulsion.second_order(kind, x, direction, shift)
        if kind.convex:
            return part
        along: Any = slopes
        if kind is PRODUCT:
            along = float(sum_over_ranks(self.comm, float(np.vdot(slopes, direction))))
        return part - (4.0 * factor**2 * along) * slopes

    def _refuse_densities(self) -> None:
        if self._density_term() is not None:
            raise InputError(
                "the Hessian is not computed where local densities count; use density = 0, or a "
                "method that does not need it"
            )

    def hessian_diagonal(self, x: Array) -> Array:
        self._refuse_densities()
        return self.rowwise_diagonal(x)

    def rowwise_diagonal(self, x: Array) -> Array:
        """The Hessian's diagonal without densities: as a turn of the map turns its blocks."""
        diagonal = self.attraction.second_order(DIAGONAL, x, x, 0.0)
        return 4.0 * (diagonal + self._lambda * self._repulsive_part(DIAGONAL, x, x))

    def partial_hessian_diagonal(self, x: Array) -> Array:
        """4 D+ + 8 lambda diag(L^xx), L^xx of positive weights."""
        diagonal = self._lambda * self._repulsive_part(CONVEX_DIAGONAL, x, x)
        return 4.0 * (diagonal + degrees_and_free(self, x)[0][:, None])

    def repulsive_product(self, x: Array, direction: Array) -> Array:
        """8 lambda L^xx_(i.,i.) ``direction``, positive weights only.

        Of L^xx the convex part of the repulsion is kept.  What t-SNE's attraction adds to
        it has negative weights throughout, and is left out.
        """
        return 4.0 * self._lambda * self._repulsive_part(CONVEX_PRODUCT, x, direction)

    def weights_at_rows(self) -> Weights:
        """The attractive weights p where the map's rows lie.  Collective."""
        return self.weights if self.places is None else self.places.backward_matrix(self.weights)

    # -- capabilities ----------------------------------------------------------------------

    def attractive_weights(self, x: Array) -> Weights:
        """p f'(0): the attraction's weights, for kernels such as t-SNE's taken at X = 0."""
        weights, places = self.placed_weights(x)
        return weights if places is None else places.backward_matrix(weights)

    def placed_weights(self, x: Array) -> tuple[Weights, Relocation | None]:
        """The same weights where they lie, and how the map's rows come there."""
        at_zero = self.attraction.function(0.0)[1]
        return self.weights if at_zero == 1.0 else self.weights * at_zero, self.places

    @property
    def homotopy_parameter(self) -> float:
        return self._lambda

    @homotopy_parameter.setter
    def homotopy_parameter(self, value: float) -> None:
        self._lambda = float(value)

    @property
    def default_stop(self) -> Mapping[str, Any]:
        return self._stop

    def check_homotopy(self, value: float) -> None:
        if not (math.isfinite(value) and value >= 0.0):
            name = self.homotopy_name
            raise InputError(f"{name} must be a finite number of at least 0, not {value!r}")

    def default_homotopy(self) -> Sequence[float]:
        """The stages chosen at construction, as values of lambda."""
        return tuple(factor * self._final_lambda for factor in self.stages)

    def value_at(self, parameter: float, value: float) -> float:
        """The value with another lambda, known where the term of densities does not count."""
        last, attracted, repelled = self._last
        if value != last or self.density is not None:
            return math.nan
        return self.constant + attracted + parameter * repelled

    def stage_name(self, parameter: float) -> str:
        """In words where they are known, those of t-SNE."""
        return stop_name(parameter) if self.label == "t-sne" else super().stage_name(parameter)

    def escape_stationary_point(self, x: Array) -> Array:
        """A map that has collapsed, moved by the random numbers of a start.

        Where the repulsion is weak, all points coincide in the minimum, and there the gradient is
        zero for every lambda: stages with a stronger repulsion would end at once.  A map whose
        largest side is below the deviation of a random start counts as collapsed.
        """
        return self._moved_apart(x)

    def _moved_apart(self, x: Array) -> Array:
        side = self.widest_side(x)
        if side < START_SCALE:
            return x + self.layout.random_normal(0, START_SCALE)
        if x.shape[1] > 1:
            # No force leads off a line, or another flat that the points lie on.
            mean = np.asarray(sum_over_ranks(self.comm, x.sum(axis=0))) / self.layout.rows
            spread = np.linalg.eigvalsh(inner_products(self.layout, x - mean, x - mean))[0]
            if agreed(self.comm, bool(spread <= self.layout.rows * (FLAT * side) ** 2)):
                return x + self.layout.random_normal(0, min(START_SCALE, 0.01 * side))
        return x

    # -- reports ---------------------------------------------------------------------------

    def length_scale(self, x: Array) -> float:
        """Most that a point should move in a step: the widest side, but at most a few map units.

        Both kernels fall off within a few units: 1 for up to 15,000 points, 2 for 60,000, 8 for a
        million.  Longer steps tear clusters apart, and let maps grow for little of the objective.
        """
        return min(self.widest_side(x), max(1.0, math.sqrt(self.layout.rows / ROWS_PER_STEP)))

    def widest_side(self, x: Array) -> float:
        """Largest side of the box that holds the map."""
        return bounding_box(self.layout, x)[1]

    def value_error(self, value: float) -> float:
        """Error of the repulsion's sum, and rounding in single precision.

        A relative error of a sum is an absolute one of its logarithm; else the sum's own term is at
        most the value, and the weight of what is subtracted, since nothing else here is negative.
        """
        largest = abs(value) + (self._density_weight if self._density_term() is not None else 0.0)
        error = self.repulsion.relative_error * (self._lambda if self.normalized else largest)
        largest += abs(self.constant)
        error += self.attraction.relative_error * largest
        return error + super().value_error(largest)

    def metrics(self, x: Array) -> Mapping[str, Any]:
        """The objective, evaluated once more with a hundredth of its error.

        For SNE variants that is the KL divergence, at lambda = 1; for others ``refined_objective``,
        at lambda as it is.  Neither has the pull of anchors in it, nor the term of densities, whose
        correlation is ``density_correlation``.  A map mostly empty, or of one place, is noted.
        """
        side, dense = self.widest_side(x), self.layout.rows ** (1.0 / self.layout.columns)
        if side > INFLATED * dense:
            self.note(
                f"the map is inflated: it is {side:,.0f} units wide, {side / dense:,.0f} times as "
                "wide as if its points were a unit apart, where a lower objective tells of size "
                "more than of neighbors; a narrower start, a higher perplexity, or a larger tol "
                "([stop] decrease), gives a smaller map"
            )
        if side < START_SCALE:
            self.note("all points coincide: the repulsion is too weak to unfold a map (lambda)")
        facts: dict[str, Any] = {}
        if self.density is not None:
            facts["density_correlation"] = self.density.total(x)
            if self._density_term() is None:
                self.note(
                    f"local densities did not count: lambda ended at {self._lambda:g}, below the "
                    f"objective's own {self._final_lambda:g}"
                )
        attracted = self.constant + self.attraction.refined_total(x)
        total = self.repulsion.refined_total(x)
        if not self.normalized:
            repelled = self._lambda * self.repulsion_scale * total
            return {**facts, "refined_objective": attracted + repelled}
        if total < TINY * self.layout.rows:
            repelled, _, _, _ = self._repelled(x, False)
        else:
            repelled = math.log(total)
        return {**facts, "kl_divergence": attracted + repelled}

    def row_measures(self, solution: np.ndarray, dataset: Any) -> Mapping[str, np.ndarray]:
        """:func:`~thalweg_embedding.faithfulness` of the map, by what its measures say."""
        from thalweg_embedding.point_quality import LEGENDS, faithfulness

        if dataset is None or self.options is None:
            return {}
        return {LEGENDS[name]: rows for name, rows in faithfulness(dataset, solution, self).items()}

    def identity(self) -> dict[str, Any]:
        """The arguments, but the start, stages and rules, and what follows from the weights."""
        product = RowMatrix(self.layout, self.weights, self.places)
        image = product.multiply(self.layout.random_normal(0))
        left_out = ("stages", "stop", "constant", "density", "places", "start")
        arguments = {k: v for k, v in super().identity().items() if k not in left_out}
        return {**arguments, "weights": sketch(self.layout, image)}
