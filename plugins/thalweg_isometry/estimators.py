"""scikit-learn estimators of near-isometric linear embeddings, one for each method."""

from thalweg.plugins import estimator
from thalweg_isometry.linear_isometry import LinearIsometry


@estimator
class NearIsometricEmbedding(LinearIsometry):
    """The framework's own method: squared hinge on the factor; or nearest rows kept.

    Attributes
    ----------
    n_candidates_ : int or None
        With ``n_candidates``: so many first candidates hold the nearest, certified over all rows.
    """

    _solver = "hinge-lbfgs"

    n_candidates: int | None = None
    share: float = 1.0


@estimator
class NuMax(LinearIsometry):
    """Least nuclear norm (Hegde et al. 2015)."""

    _solver = "numax"


@estimator
class FroMax(LinearIsometry):
    """A factor near a matrix within the bounds (Luo et al., Algorithm 1)."""

    _solver = "fromax"


@estimator
class NILEPro(LinearIsometry):
    """The largest distortion itself, by ADMM (Luo et al., Algorithm 2)."""

    _solver = "nile-pro"


@estimator
class SecantAvoidanceProjection(LinearIsometry):
    """An orthogonal projection turned away from the worst secant (Kvinge et al. 2018)."""

    _solver = "secant-avoidance"


@estimator
class LearnedJohnsonLindenstrauss(LinearIsometry):
    """A random projection made one map by Hessian descent (Tsikouras et al. 2024): small sets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> points = load_iris().data[::6]
    >>> LearnedJohnsonLindenstrauss(n_components=3).fit_transform(points).shape
    (25, 3)
    """

    _solver = "hessian-descent"


@estimator
class SecantPCA(LinearIsometry):
    """Baseline: principal directions of the normalized secants."""

    _solver = "secant-pca"


@estimator
class JohnsonLindenstrauss(LinearIsometry):
    """Baseline: a matrix of independent normal entries of variance 1 / rank.

    With ``delta`` alone, the least rank that the search finds to reach it on these points,
    in place of the rank that suffices for any points by the lemma of Johnson and
    Lindenstrauss (``sklearn.random_projection.johnson_lindenstrauss_min_dim``).
    """

    _solver = "random-projection"


@estimator
class ADAGIO(LinearIsometry):
    """Baseline: principal directions and a random projection of the rest (Błasiok et al. 2016)."""

    _solver = "adagio"
