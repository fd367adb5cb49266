"""Kinds of embeddings: which two functions of a distance, and how the repulsion enters."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import scipy.optimize

from thalweg.errors import InputError
from thalweg.plugins import Help
from thalweg_embedding import defaults
from thalweg_embedding.pairs.functions import DISTANCE, GAUSSIAN, PairFunction
from thalweg_embedding.pairs.parametric import cross_entropy_functions, student_functions

#: Added to squared distances where the repulsion is singular, as in UMAP's own gradient.
OFFSET = 1e-3


@dataclass(frozen=True)
class Family:
    """A kind of embedding: two functions, and how the repulsion enters.

    Parameters
    ----------
    name
        As users write it.
    attraction, repulsion
        f and g.
    normalized
        Whether E- is the logarithm of the sum of g.
    lambda_
        Usual weight of the repulsion; by default 1 where E- is a logarithm, else 100.
    affinity
        Usual affinities, ``"entropic"`` or ``"fuzzy"``.
    bounded
        Whether the attraction of a pair is bounded at any distance, as those of t-SNE and UMAP
        are.  Runs then start from principal components and pass stages of early
        exaggeration; by default where E- is a logarithm.
    from_all_points
        Whether the usual lambda belongs to samples of all N points, the repelled one included,
        which it does not feel; it is then times (N - 1)/N.
    per_point
        Whether E- is the mean of logarithms, one of the sum of exp(-d) from each point.
    """

    name: str
    attraction: PairFunction
    repulsion: PairFunction
    normalized: bool
    lambda_: float | None = None
    affinity: Literal["entropic", "fuzzy"] = "entropic"
    bounded: bool | None = None
    from_all_points: bool = False
    per_point: bool = False

    @property
    def staged(self) -> bool:
        """Whether runs begin with principal components and exaggeration."""
        return self.normalized if self.bounded is None else self.bounded

    def stages(
        self, rows: int, exaggeration: float | None, unfold_first: bool = False
    ) -> tuple[float, ...]:
        """Factors of lambda that a run passes through, from 1/exaggeration to 1.

        Each is at most three times the one before until 1/2, or twice where points are many, as
        MATHEMATICS.md tells under "Stages".  None asks for 12 where E- is a logarithm and the
        points are many, else for no stages.  ``unfold_first``: stages are wanted in any case.
        """
        if exaggeration is None:
            exaggerated = unfold_first or (self.staged and rows >= defaults.MANY_ROWS)
            exaggeration = defaults.EXAGGERATION if exaggerated else 1.0
        first, few = 1.0 / exaggeration, rows <= defaults.ROWS_PER_STEP
        late = [f for f in (defaults.LATE_STAGES if few else (1.0,)) if f > first]
        if not late:
            return ()
        growth = late[0] / first
        count = max(1, math.ceil(math.log(growth, 3.0 if few else 2.0) - 1e-9))
        return (*(first * growth ** (i / count) for i in range(count)), *late)


ELASTIC_EMBEDDING = Family("elastic-embedding", DISTANCE, GAUSSIAN, normalized=False)
PLAIN_SNE = Family("sne", DISTANCE, GAUSSIAN, False, lambda_=1.0, per_point=True)
SYMMETRIC_SNE = Family("s-sne", DISTANCE, GAUSSIAN, normalized=True)
T_SNE = Family("t-sne", *student_functions(1.0), normalized=True)
T_ELASTIC_EMBEDDING = Family("t-ee", *student_functions(1.0), normalized=False)

#: What maps by t-SNE with weaker repulsion are like, up to a weight (Boehm, Berens and Kobak 2022).
LIKENESS = {
    1 / 50: "near Laplacian eigenmaps", 1 / 15: "like ForceAtlas2",
    1 / 6: "between ForceAtlas2 and UMAP", 0.4: "like UMAP", 0.95: "between UMAP and t-SNE",
    1.05: "t-SNE", math.inf: "wider than t-SNE",
}  # fmt: skip


def stop_name(lambda_: float) -> str:
    """A map by t-SNE with this weight of the repulsion, in words."""
    likeness = next(words for most, words in LIKENESS.items() if lambda_ <= most)
    share = f"1/{1 / lambda_:.3g}" if 0.0 < lambda_ <= 0.5 else f"{lambda_:.3g}"
    return f"λ = {share}: {likeness}"


def student_sne(
    degrees_of_freedom: Annotated[
        float, Help("degrees of freedom of Student's kernel: below 1, heavier tails", above=-1)
    ] = 1.0,
) -> Family:
    """t-SNE with tails of one's own: kernel (1 + d/a)^-a, a = (nu + 1)/2.

    Heavier tails show finer clusters (Kobak et al. 2020), lighter ones approach symmetric SNE.
    """
    return Family("t-sne", *student_functions(float(degrees_of_freedom)), normalized=True)


def umap(
    min_dist: Annotated[float, Help("distance of close points", unit="map units", minimum=0)] = 0.1,
    spread: Annotated[float, Help("over which closeness falls", unit="map units", above=0)] = 1.0,
) -> Family:
    """UMAP's kernel 1/(1 + a d^b), of McInnes, Healy and Melville (2018), and its cross-entropy.

    Raises
    ------
    InputError
        ``min_dist`` is above ``spread``.
    """
    min_dist, spread = float(min_dist), float(spread)
    # The a and b for which 1/(1 + a r^2b) is nearest to 1 below min_dist, and beyond it to
    # exp(-(r - min_dist)/spread).
    if min_dist > spread:
        raise InputError(f"min_dist must be at most spread ({spread:g}), not {min_dist:g}")
    # In units of the spread, so that the fit succeeds for any.
    r, close = np.linspace(0.0, 3.0, 300), min_dist / spread
    kernel = lambda r, a, b: 1.0 / (1.0 + a * r ** (2.0 * b))  # noqa: E731
    (a, b), _ = scipy.optimize.curve_fit(kernel, r, np.where(r < close, 1.0, np.exp(-(r - close))))
    a *= spread ** (-2.0 * b)
    a, b = float(f"{a:.6g}"), float(f"{b:.6g}")  # so that compiled code is found again
    functions = cross_entropy_functions(a, b, OFFSET)
    return Family("umap", *functions, False, 2.5, "fuzzy", bounded=True, from_all_points=True)


def largevis() -> Family:
    """LargeVis (Tang, Liu, Zhang and Mei 2016): kernel 1/(1 + d).

    lambda = 35 is its five negative samples times their weight, 7; both ends move.
    """
    functions = cross_entropy_functions(1.0, 1.0, OFFSET)
    return Family("largevis", *functions, False, lambda_=35.0, bounded=True)


def negative_t_sne(
    normalization: Annotated[
        float, Help("constant for t-SNE's normalization, per pair; more attracts more", above=0)
    ] = 1.0,
) -> Family:
    """Neg-t-SNE (Damrich, Boehm, Hamprecht and Kobak 2023), of its loss's expectation.

    The kernel 1/(1 + c (1 + d)) with c the normalization: the map goes from t-SNE's to UMAP's
    and beyond as c grows.  lambda = 5 is the number of negative samples; both ends of each move.
    """
    functions = cross_entropy_functions(float(normalization), 1.0, 1.0)
    return Family("neg-t-sne", *functions, False, lambda_=5.0, bounded=True)
