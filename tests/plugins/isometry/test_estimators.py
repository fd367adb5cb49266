"""The estimators follow scikit-learn's contract and report certified facts."""

import time

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import parametrize_with_checks

from thalweg import Dataset, InputError, Status
from thalweg.parallel.failures import TIMEOUT
from thalweg_isometry import (
    FroMax,
    JohnsonLindenstrauss,
    LearnedJohnsonLindenstrauss,
    NearIsometricEmbedding,
    NILEPro,
    NuMax,
    SecantAvoidanceProjection,
    SecantPCA,
    certify,
)

ESTIMATORS = (
    NearIsometricEmbedding, NuMax, FroMax, NILEPro, SecantAvoidanceProjection,
    LearnedJohnsonLindenstrauss, SecantPCA, JohnsonLindenstrauss,
)  # fmt: skip

#: Searches that are long enough for a contract, and few pairs where these cost most.
QUICK = [
    *(kind(solver_options={"limit": 4, "sweep": 4}) for kind in (NuMax, FroMax, NILEPro)),
    SecantAvoidanceProjection(solver_options={"limit": 4}),
    LearnedJohnsonLindenstrauss(0.8, None, "neighbors", 3, {"sweep": 1, "share": 0.01}),
    *(kind() for kind in (NearIsometricEmbedding, SecantPCA, JohnsonLindenstrauss)),
]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(QUICK)
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [NearIsometricEmbedding, NuMax, FroMax, NILEPro, SecantPCA])
def test_attributes_are_certified(digits, true_delta, estimator):
    points = digits[:24]
    options = {"limit": 400} if estimator in (FroMax, NILEPro) else None
    fitted = estimator(delta=0.4, solver_options=options).fit(points)
    assert fitted.components_.shape == (fitted.n_components_, 64)
    assert fitted.delta_ == pytest.approx(true_delta(points, fitted.components_), rel=1e-7)
    assert fitted.delta_ <= 0.4
    assert fitted.status_ is Status.CONVERGED
    assert 1 <= fitted.rank_lower_bound_ <= fitted.n_components_
    assert all("attempt" in note for note in fitted.notes_)
    assert fitted.n_secants_ == 24 * 23 // 2
    assert fitted.transform(points).shape == (24, fitted.n_components_)
    np.testing.assert_allclose(fitted.transform(points), points @ fitted.components_.T)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(
    ("kind", "center", "near"),
    [
        ("float32", 100.0, 5e-5),
        ("float32", 0.0, 1e-6),
        ("float64", 1e8, 1e-7),
        ("float16", 100.0, 0.5),
        ("int8", 100.0, 3.0),
    ],
)
def test_the_certified_delta_holds_for_what_transform_returns(comm, kind, center, near):
    stream = np.random.default_rng(0)
    points = center + stream.normal(size=(60, 30))
    points = np.concatenate([points, points[:20] + near * stream.normal(size=(20, 30))])
    points = points.astype(kind)
    shared = Dataset.from_array(points, comm=comm)
    before = pdist(points.astype(float), "sqeuclidean")
    some = before > 0.0
    for rows in (points, shared)[comm.size > 1 :]:
        fitted = NearIsometricEmbedding(delta=0.4).fit(rows)
        assert fitted.delta_ <= 0.4
        images = fitted.transform(rows)
        if rows is shared:
            images = shared.layout.gather_rows(images)
        found = np.abs(pdist(images, "sqeuclidean")[some] / before[some] - 1.0).max()
        assert found == pytest.approx(fitted.delta_, rel=1e-5)
        assert fitted.offset_.any() == (center > 0.0)
    back = fitted.transform(fitted.inverse_transform(images))
    np.testing.assert_allclose(back, images, rtol=1e-7, atol=1e-6)


def test_classes_are_taken_from_y(digits):
    labels = np.array(["a", "b"])[np.arange(40) % 2]
    fitted = NearIsometricEmbedding(delta=0.3, secants="within-class").fit(digits[:40], labels)
    assert fitted.n_secants_ == 2 * (20 * 19 // 2)
    with pytest.raises(InputError, match="give y"):
        NearIsometricEmbedding(secants="within-class").fit(digits[:40])
    for rows in (np.arange(40), np.arange(40) % 20):  # alone in their classes; beside equal points
        with pytest.raises(InputError, match="no two of the points of a class differ"):
            NearIsometricEmbedding(secants="within-class").fit(digits[rows], rows)


@pytest.mark.parametrize("form", [np.asarray, np.uint8, np.float32, scipy.sparse.csr_matrix])
def test_sums_of_points_keep_inner_products_within_delta(digits, form):
    points = 16.0 * digits[:60]
    model = NearIsometricEmbedding(delta=0.3, secants="sums").fit(form(points))
    images = np.asarray(model.transform(points))
    norms = (points**2).sum(axis=1)
    change = np.abs(images @ images.T - points @ points.T)
    assert (change <= 0.5 * model.delta_ * (norms[:, None] + norms) * (1 + 1e-9)).all()
    assert model.delta_ <= 0.3
    assert not model.offset_.any()
    i, j = (number // 2 for number in model.attaining_pair_)
    signs = [(-1) ** number for number in model.attaining_pair_]
    secant = signs[0] * points[i] - signs[1] * points[j]
    ratio = ((model.components_ @ secant) ** 2).sum() / (secant**2).sum()
    assert abs(ratio - 1.0) == pytest.approx(model.delta_, rel=1e-6)


def test_the_score_is_the_isometry_constant_over_new_points(digits, true_delta):
    fitted = SecantPCA(n_components=8).fit(digits[:30])
    new = digits[30:70]
    assert fitted.score(new) == pytest.approx(-true_delta(new, fitted.components_), rel=1e-7)
    assert fitted.score(digits[:30]) == pytest.approx(-fitted.delta_, rel=1e-9)


def test_the_bound_for_new_points_holds_as_often_as_it_says():
    random = np.random.default_rng(0)
    fitted = JohnsonLindenstrauss(n_components=4).fit(random.standard_normal((20, 12)))
    pairs = random.standard_normal((50_000, 12))  # differences of two normal points
    ratios = ((pairs @ fitted.components_.T) ** 2).sum(axis=1) / (pairs**2).sum(axis=1)
    distortions = np.sort(np.abs(ratios - 1.0))
    held, loosest = 0, 0.0
    for _ in range(200):
        delta, share = fitted.bound_for_new_points(random.standard_normal((6, 12)), 0.5)
        beyond = 1.0 - np.searchsorted(distortions, delta) / len(distortions)
        held += beyond <= share
        loosest = max(loosest, beyond / share)
    assert share == pytest.approx(1.0 - 0.5 ** (1 / 3))
    assert held >= 100
    assert loosest > 1.0  # it is a bound with a probability, not a certainty
    with pytest.raises(InputError, match="between 0 and 1, not 1"):
        fitted.bound_for_new_points(pairs[:6], 1.0)


def test_partial_fit_keeps_the_map_and_the_cuts_and_certifies_all_points(digits, true_delta):
    whole = NearIsometricEmbedding(delta=0.4).partial_fit(digits[:40])
    before = whole.components_
    first = whole.n_iter_
    whole.partial_fit(digits[:20])  # points that are known, so that nothing is left to do
    assert whole.n_components_ <= len(before)
    assert whole.n_secants_ == 40 * 39 // 2 + 40 * 20 - 20 + 20 * 19 // 2
    assert whole.n_coincident_ == 20
    whole.partial_fit(digits[40:60])
    assert whole.delta_ <= 0.4
    assert true_delta(digits[:60], whole.components_) <= 0.4
    assert first >= 1


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_matrix])
def test_partial_fit_keeps_the_points_of_a_buffer_that_is_used_again(digits, kind):
    buffer = kind(digits[:40])
    model = NearIsometricEmbedding(delta=0.4).partial_fit(buffer)
    (buffer if kind is np.array else buffer.data)[...] *= -0.5
    model.partial_fit(buffer)
    assert model.n_secants_ == 80 * 79 // 2


@pytest.mark.parametrize("other", ["all", "neighbors"])
def test_partial_fit_holds_no_pairs_that_are_no_secants_now(digits, other):
    options = {"n_components": 3, "n_neighbors": 3}
    model = NearIsometricEmbedding(secants="sums", **options).partial_fit(digits[:20])
    model.set_params(secants=other).partial_fit(digits[20:24])
    alone = NearIsometricEmbedding(secants=other, **options).fit(digits[:24])
    assert model.delta_ < 1.1 * alone.delta_


def test_partial_fit_refuses_data_sets_and_classes_that_come_late(digits):
    fitted = NearIsometricEmbedding(delta=0.9).partial_fit(digits[:8])
    with pytest.raises(InputError, match="takes arrays"):
        fitted.partial_fit(Dataset.from_array(digits[:8]))
    fitted.set_params(secants="within-class")
    with pytest.raises(InputError, match="without classes"):
        fitted.partial_fit(digits[8:12], np.arange(4))


def test_a_map_of_full_rank_leaves_no_secant_to_avoid(digits):
    options = {"adjust": "eigengap", "sweep": 1, "all_below": 0}
    search = SecantAvoidanceProjection(delta=0.4, n_components=8, solver_options=options)
    assert search.fit(digits[:60, 20:28]).delta_ < 1e-8


#: Shorter searches than users get: each iteration costs messages between the ranks.
SHORT = {
    FroMax: {"limit": 10, "sweep": 10},
    NILEPro: {"limit": 10, "sweep": 10},
    SecantAvoidanceProjection: {"limit": 20},
    LearnedJohnsonLindenstrauss: {"sweep": 1, "share": 0.005},
}


@pytest.mark.ranks(2)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_methods_are_the_same_at_any_number_of_ranks(comm, digits, estimator):
    points = digits[:12]
    shared = Dataset.from_array(points, comm=comm)
    chosen = estimator(delta=0.8, n_jobs=1, solver_options=SHORT.get(estimator))
    fitted, alone = (clone(chosen).fit(rows) for rows in (shared, points))
    np.testing.assert_allclose(fitted.delta_, alone.delta_, rtol=0.05)
    found = fitted.components_.tobytes()
    assert comm.allgather(found) == [found] * comm.size
    assert fitted.score(shared) == fitted.score(points) == pytest.approx(-fitted.delta_, rel=1e-7)
    assert fitted.bound_for_new_points(shared) == fitted.bound_for_new_points(points)
    mapped = shared.layout.gather_rows(fitted.transform(shared))
    np.testing.assert_allclose(mapped, fitted.transform(points))


#: Method, what is wrong on one rank with the estimator's parameters or the method's arguments.
WRONG = [
    ("fit", {"delta": 2.0}, {}, "'delta' of"),
    ("fit", {"delta": 0.7}, {}, "the parameters differ between rank 0 and rank"),
    ("fit", {"n_components": 0}, {}, "'n_components' of"),
    ("fit", {"n_components": 9}, {}, "the parameters differ"),
    ("fit", {"secants": "some"}, {}, "'secants' of"),
    ("fit", {"n_jobs": 0}, {}, "'n_jobs' must be"),
    ("fit", {"max_iter": -1}, {}, "'max_iter' of"),
    ("fit", {"random_state": "x"}, {}, "'random_state' must be"),
    ("fit", {"solver_options": {"precision": 0.5}}, {}, "the parameters differ"),
    ("fit", {}, {"weights": [1.0]}, "give pairs, too"),
    ("fit", {}, {"pairs": [[0, 1]]}, "the parameters differ"),
    ("bound_for_new_points", {}, {"confidence": 1.0}, "between 0 and 1"),
    ("score", {}, {}, "not finite"),
    ("score", {"n_jobs": 0}, {}, "'n_jobs' must be"),
]


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("estimator", [NearIsometricEmbedding, JohnsonLindenstrauss])
def test_what_is_wrong_on_one_rank_is_refused_on_all(comm, digits, estimator):
    rows = Dataset.from_array(digits[:24], comm=comm)
    fitted = estimator(delta=0.8, random_state=0).fit(rows)
    for method, parameters, arguments, text in WRONG:
        if comm.size == 1 and "differ" in text:
            continue
        given, chosen = rows, clone(fitted) if method == "fit" else fitted
        if text == "not finite":
            given = rows.with_values(rows.values * (np.nan if comm.rank == comm.size - 1 else 1.0))
        if comm.rank == comm.size - 1:
            chosen.set_params(**parameters)
        else:
            arguments = {}
        began = time.perf_counter()
        with pytest.raises(InputError, match=text):
            getattr(chosen, method)(given, **arguments)
        assert time.perf_counter() - began < TIMEOUT  # no rank waited for one that had left


@pytest.mark.parametrize("secants", ["all", "within-class", "neighbors"])
def test_a_map_of_sparse_rows_is_found_without_making_them_full(secants, true_delta, monkeypatch):
    full = scipy.sparse.random(60, 300, 0.05, random_state=0, format="csr")
    points = scipy.sparse.csc_matrix(full)
    y = np.arange(60) % 2

    def refuse(*_):
        raise AssertionError("made full")

    monkeypatch.setattr(scipy.sparse.csr_matrix, "toarray", refuse)
    monkeypatch.setattr(scipy.sparse.csc_matrix, "toarray", refuse)
    fitted = NearIsometricEmbedding(delta=0.5, secants=secants, n_neighbors=4).fit(points, y)
    monkeypatch.undo()
    assert fitted.status_ is Status.CONVERGED
    assert fitted.delta_ <= 0.5
    if secants == "neighbors":  # products of a large column cancel
        wide = full.toarray() + 1e9 * np.eye(300)[0]
        dense, sparse = (clone(fitted).fit(form) for form in (wide, scipy.sparse.csr_matrix(wide)))
        assert sparse.n_secants_ == dense.n_secants_
        with pytest.raises(InputError, match="below the number of rows, 60"):
            NearIsometricEmbedding(secants=secants, n_neighbors=60).fit(points)
    if secants == "all":
        assert fitted.delta_ == pytest.approx(true_delta(full.toarray(), fitted.components_))
        assert fitted.score(points) == pytest.approx(-fitted.delta_)
        grown = NearIsometricEmbedding(delta=0.5).partial_fit(points[:40])
        assert grown.partial_fit(points[40:]).n_secants_ == 60 * 59 // 2


def test_only_given_pairs_are_kept(digits):
    pairs = np.stack([np.arange(40), (np.arange(40) + 7) % 40], axis=1)
    fitted = NearIsometricEmbedding(delta=0.2).fit(digits[:40], pairs=pairs)
    assert fitted.n_secants_ == 40
    assert fitted.n_components_ < NearIsometricEmbedding(delta=0.2).fit(digits[:40]).n_components_
    with pytest.raises(InputError, match="no two of the points that are paired differ"):
        NearIsometricEmbedding().fit(digits[[0, 1, 0]], pairs=[[1, 1], [0, 2]])
    secants = digits[pairs[:, 0]] - digits[pairs[:, 1]]
    weights = np.resize([1.0, 0.3], 40)
    for kind in (NearIsometricEmbedding, NuMax, FroMax, NILEPro):
        fitted = kind(delta=0.2).fit(digits[:40], pairs=pairs, weights=weights)
        ratios = ((secants @ fitted.components_.T) ** 2).sum(axis=1) / (secants**2).sum(axis=1)
        change = np.abs(ratios - 1.0)
        assert (weights * change).max() == pytest.approx(fitted.delta_, rel=1e-6)
        assert fitted.delta_ <= 0.2 < change.max()
    with pytest.raises(InputError, match="no weights"):
        SecantAvoidanceProjection(delta=0.2).fit(digits[:40], pairs=pairs, weights=weights)


@pytest.mark.filterwarnings("ignore:stopped. the requested quality")  # of one row
@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("share", [1.0, 0.9])
def test_the_nearest_are_first_candidates_at_a_lower_rank_than_by_pca(comm, digits, share):
    def place(images):
        facts = certify(digits, images, quantity="neighbors", n_neighbors=5)
        return np.sort(facts.row_worst[:, 1])[int(np.ceil(share * 90)) - 1]

    rows = Dataset.from_array(digits, comm=comm)
    options = {"n_neighbors": 5, "n_candidates": 12, "share": share}
    fitted = NearIsometricEmbedding(**options).fit(rows)
    assert fitted.status_ is Status.CONVERGED
    assert fitted.n_candidates_ == place(rows.layout.gather_rows(fitted.transform(rows))) <= 12
    assert place(PCA(fitted.n_components_).fit_transform(digits)) > 12
    ratios = (pdist(digits @ fitted.components_.T) / pdist(digits)) ** 2
    assert ratios.max() - 1.0 == pytest.approx(1.0 - ratios.min(), rel=1e-9)
    for rank in (1, fitted.n_components_ + 2) if comm.size == 1 else ():
        given = NearIsometricEmbedding(n_components=rank, **options).fit(rows)
        assert (given.status_ is Status.CONVERGED) == (given.n_candidates_ <= 12) == (rank > 1)
    wrong = {"delta": (0.4, "two goals"), "n_neighbors": (13, "more"), "secants": ("sums", "pairs")}
    for name, (value, words) in wrong.items():
        with pytest.raises(InputError, match=words):
            NearIsometricEmbedding(**{**options, name: value}).fit(rows)
    assert fitted.set_params(n_candidates=None, delta=0.5).fit(rows).n_candidates_ is None


@pytest.mark.parametrize("missing", [np.nan, None, np.inf, np.datetime64("NaT")])
def test_classes_that_are_no_numbers_are_refused(missing):
    rows = np.random.default_rng(0).normal(size=(6, 3))
    with pytest.raises(InputError, match="class in y is none, or not finite"):
        NearIsometricEmbedding(secants="within-class").fit(rows, [0, 0, 1, 1, missing, missing])
    mixed = np.array([1, "a"] * 3, dtype=object)
    numbered = NearIsometricEmbedding(secants="within-class").partial_fit(rows, [0, 1] * 3)
    masked = np.ma.masked_less([0, 1] * 3, 1)
    for later, words in ((masked, "masked entries"), (["0", "1"] * 3, "all numbers or all")):
        with pytest.raises(InputError, match=words):
            numbered.partial_fit(rows, later)
    with pytest.raises(InputError, match="class in y is none"):
        NearIsometricEmbedding(secants="within-class").partial_fit(rows, ["a", missing] * 3)
    unknown = Dataset.from_array(rows, ["a", "b", ""] * 2)
    for arguments, words in (((rows, mixed), "all numbers or all"), ((unknown,), "have no class")):
        with pytest.raises(InputError, match=words):
            NearIsometricEmbedding(secants="within-class").fit(*arguments)


def test_fromax_comes_close_to_small_bounds_too():
    line = np.outer(np.random.default_rng(0).normal(size=10), [1.0, 2.0, -1.0])
    points = line + 1e-2 * np.random.default_rng(5).normal(size=line.shape)
    least = NearIsometricEmbedding(n_components=1).fit(points).delta_
    assert FroMax(n_components=1).fit(points).delta_ < 1.15 * least
