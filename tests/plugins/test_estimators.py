"""Docstrings of estimators, and methods that communicate: default seed, the error of one rank."""

import doctest
import importlib
import inspect
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator

import thalweg_embedding as maps
from thalweg import Dataset, minimize
from thalweg.errors import InputError, ThalwegError
from thalweg.parallel import MPI, raise_on_all_ranks
from thalweg.parallel.reductions import same_on_all_ranks
from thalweg_clustering import KDAC, build_kdac, compare_labelings, find_alternatives
from thalweg_descent.lbfgs import LBFGS
from thalweg_embedding import TSNE, LaplacianEigenmaps, PaCMAP
from thalweg_embedding.affinities.distances import SparseDataset
from thalweg_isometry import SecantPCA, certify
from thalweg_saddlefree.networks.build import build_autoencoder, build_mlp

NAMES = ("LocalMAP", "UMAP", "ElasticEmbedding", "LargeVis", "NegTSNE", "SymmetricSNE")
MAPS = (TSNE, PaCMAP, *(getattr(maps, name) for name in NAMES))
EIGENVECTORS = (LaplacianEigenmaps, maps.LocallyLinearEmbedding)

#: Parameters that are wrong, and those of them that eigenvector estimators lack.
WRONG = ({"n_components": 0}, {"random_state": "seven"}, {"random_state": -1})
WRONG_OF_RUNS = ({"n_jobs": 0}, {"max_iter": -1}, {"solver": "downhill"})


def rows(comm, bad=False):
    """Eighty rows in two groups; a rank's may be bad."""
    stream = np.random.default_rng(0)
    points = stream.standard_normal((80, 4)) + 4.0 * (np.arange(80) % 2)[:, None] * [1, 0, 0, 0]
    data = Dataset.from_array(points, (np.arange(80) // 2 % 2), comm)
    return replace(data, values=data.values * (np.nan if bad else 1.0))


def estimator(kind, **parameters):
    few = {"n_components": 1, "sigma": 2.0}  # with a width of its own it may say that it found none
    quick = few if kind is KDAC else {"max_iter": 5} if kind in MAPS else {}
    return kind(**{**quick, **parameters})


def refused(comm, call):
    """All ranks raise an error, and can go on."""
    with pytest.raises((ThalwegError, ValueError)):
        call()
    comm.barrier()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("kind", [*MAPS, *EIGENVECTORS, KDAC])
def test_the_default_seed_is_one_on_all_ranks(comm, kind):
    parameters = {"init": "random"} if kind in (*MAPS, KDAC) else {}
    found = estimator(kind, **parameters).fit(rows(comm))
    assert np.isfinite(found.embedding_).all()
    same_on_all_ranks(comm, [found.objective_, found.n_iter_], "what a fit found")


@pytest.mark.ranks(3)
@pytest.mark.parametrize("kind", [*MAPS, *EIGENVECTORS, KDAC])
def test_a_wrong_parameter_of_one_rank_is_an_error_on_all(comm, kind):
    last = comm.rank == comm.size - 1
    for wrong in (*WRONG, *(() if kind in EIGENVECTORS else WRONG_OF_RUNS)):
        for method in ("fit", "fit_transform", *(("fit_predict",) if kind is KDAC else ())):
            found = estimator(kind, **(wrong if last else {}))
            refused(comm, lambda found=found, method=method: getattr(found, method)(rows(comm)))
    refused(comm, lambda: estimator(kind).fit(rows(comm, bad=last)))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("kind", [TSNE, PaCMAP])
def test_a_wrong_argument_of_one_rank_for_a_finished_map_is_an_error_on_all(comm, kind):
    found = estimator(kind).fit(rows(comm))
    last = comm.rank == comm.size - 1
    for wrong in (np.ones((2, 3)), np.full((2, 4), np.nan), "rows"):
        refused(comm, lambda wrong=wrong: found.transform(wrong if last else np.ones((2, 4))))
    for wrong in (np.ones((2, 3)), np.full((2, 2), np.nan), "places"):
        refused(comm, lambda wrong=wrong: found.inverse_transform(wrong if last else [[0.0, 0.0]]))
    if last:
        found.n_jobs = 0
    refused(comm, lambda: found.transform(np.ones((2, 4))))


@pytest.mark.ranks(1, 2)
def test_predictions_need_no_other_rank(comm):
    found = estimator(KDAC).fit(rows(comm))
    labels = rows(comm).layout.gather_rows(found.labels_)
    with raise_on_all_ranks(comm):
        if comm.rank == 0:
            with pytest.raises(ValueError, match="features"):
                found.predict(np.ones((2, 7)))
            assert len(found.predict(np.ones((3, 4)))) == len(found.transform(np.ones((3, 4)))) == 3
    np.testing.assert_array_equal(found.predict(rows(MPI.COMM_SELF).values), labels)


@pytest.mark.parametrize("estimator", [KDAC, TSNE, LaplacianEigenmaps])
@pytest.mark.parametrize("kind", [np.int64, object, list])
def test_integers_that_float64_rounds_are_refused(estimator, kind):
    table = 2**53 + np.arange(80).reshape(20, 4)
    given = table.tolist() if kind is list else table.astype(kind)
    with pytest.raises(ThalwegError, match="9007199254740993 in row 0, column 1"):
        estimator().fit(given)


PACKAGES = ("thalweg_embedding", "thalweg_clustering", "thalweg_isometry")


def estimators():
    for name in PACKAGES:
        package = importlib.import_module(name)
        for exported in package.__all__:
            item = getattr(package, exported)
            if isinstance(item, type) and issubclass(item, BaseEstimator):
                yield item


ESTIMATORS = list(estimators())


def documented(cls, title):
    section = re.search(rf"^{title}\n-+\n(.*?)(?=\n\w+\n-+\n|\Z)", inspect.getdoc(cls), re.M | re.S)
    heads = re.findall(r"^(\S.*?)(?: : .*)?$", section.group(1), re.MULTILINE)
    return [name for head in heads for name in head.split(", ")]


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_each_parameter_is_documented_once(cls):
    assert sorted(documented(cls, "Parameters")) == sorted(inspect.signature(cls).parameters)
    attributes = documented(cls, "Attributes")
    assert all(name.endswith("_") for name in attributes)
    assert len(set(attributes)) == len(attributes)


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_the_example_runs(cls):
    parser, names = doctest.DocTestParser(), {cls.__name__: cls}
    test = parser.get_doctest(inspect.getdoc(cls), names, cls.__name__, None, 0)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


def test_parameters_of_other_programs_are_refused_with_a_hint():
    with pytest.raises(TypeError, match="no parameter 'learning_rate'; a line search finds"):
        TSNE(learning_rate=200)
    with pytest.raises(TypeError, match="no parameter 'perplexty'; did you mean 'perplexity'"):
        TSNE(perplexty=20)


@pytest.mark.ranks(2, 3)
def test_arguments_that_differ_between_ranks_are_an_error_on_all(comm):
    data = rows(comm)
    model = TSNE(max_iter=3, random_state=0).fit(data)
    isometry = SecantPCA(n_components=3).fit(data)
    points, labels = np.zeros((80, 2)), np.arange(80) // 2 % 2
    bad, own, places = np.full((80, 2), np.nan if comm.rank else 1.0), data.values, model.embedding_
    for call in (
        lambda: SparseDataset.of(bad, comm),
        lambda: Dataset(own[:, : 4 - comm.rank], data.layout),
        lambda: Dataset(own + 1j * comm.rank, data.layout),
        lambda: Dataset(own, data.layout, None if comm.rank else data.labels),
        lambda: build_kdac(data, comm, labelings=[labels] * (1 + comm.rank), sigma=2.0),
        lambda: build_kdac(data, comm, labelings=[labels], sigma=2.0 + comm.rank),
        lambda: KDAC("auto").fit(rows(comm, bad=comm.rank == 1)),
        lambda: KDAC(2 if comm.rank else "auto").fit(data, labels),
        lambda: KDAC(n_init=1 + comm.rank).fit(data, labels),
        lambda: KDAC().fit(data, np.stack([labels] * (1 + comm.rank), axis=1)),
        lambda: TSNE(keep_data=comm.rank > 0).fit(data),
        lambda: LaplacianEigenmaps(keep_data=comm.rank > 0).fit(data),
        lambda: build_mlp(data, comm, activation="relu" if comm.rank else "tanh"),
        lambda: build_autoencoder(data, comm, held_out=0.1 * comm.rank),
        lambda: minimize(build_mlp(data, comm), solver=LBFGS(memory=3 + comm.rank)),
        lambda: maps.map_quality(data, places[:, : 2 - comm.rank % 2]),
        lambda: maps.embedding(maps.T_SNE, data, perplexity=5.0 + comm.rank),
        lambda: maps.embedding(maps.T_SNE, data, metric="euclid" if comm.rank else "cosine"),
        lambda: maps.embedding(maps.T_SNE, data, anchors={comm.rank: (0.0, 1.0)}),
        lambda: find_alternatives(data, 3 if comm.rank else [labels], sigma=2.0),
        lambda: model.inverse_transform(places * (1e200 if comm.rank else 1.0)),
        lambda: certify(data, own, quantity="x" if comm.rank else "distance"),
        lambda: model.stability(2 + comm.rank),
        lambda: model.stability(2, neighbors=5 + comm.rank),
        lambda: isometry.bound_for_new_points(data, 0.9 - 0.1 * comm.rank),
        lambda: isometry.bound_for_new_points(data, "x" if comm.rank else 0.9),
        lambda: Dataset.from_array(points[: 70 + comm.rank], comm=comm),
        lambda: SparseDataset.of(points[: 70 + comm.rank], comm),
        lambda: maps.map_quality(data, model.embedding_, labels + comm.rank * (labels == 0)),
    ):
        refused(comm, call)


@pytest.mark.parametrize("kind", [TSNE, KDAC, SecantPCA, maps.NeighborsTransformer])
def test_masked_entries_are_refused(kind):
    points = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(InputError, match="masked"):
        kind().fit(np.ma.masked_greater(points, 2.0), np.arange(40) % 2)


def test_masked_entries_of_labels_and_places_are_refused():
    points, labels = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 3
    hidden, places = np.ma.masked_equal(labels, 2), np.ma.masked_greater(points[:, :2], 1.0)
    linear = SecantPCA(n_components=2).fit(points)
    for call in (
        lambda: Dataset.from_array(points, hidden),
        lambda: KDAC(2, 1).fit(points, hidden),
        lambda: compare_labelings([labels], [hidden]),
        lambda: TSNE(target_weight=0.5).fit(points, hidden),
        lambda: TSNE(init=places).fit(points),
        lambda: TSNE(max_iter=2, init=points[:, :2]).fit(points).inverse_transform(places),
        lambda: maps.map_quality(points, places),
        lambda: certify(points, places),
        lambda: SecantPCA(n_components=2, secants="within-class").fit(points, hidden),
        lambda: linear.fit(points, pairs=np.ma.masked_equal([[0, 1], [2, 3]], 3)),
        lambda: SecantPCA(n_components=2).fit(points).inverse_transform(places),
    ):
        with pytest.raises(InputError, match="have masked entries"):
            call()


def test_what_does_not_fit_is_told_in_a_sentence():
    points, codes = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40.0) % 3
    missing = np.where(codes == 2, np.nan, codes)
    with pytest.raises(InputError, match="of one process"):
        TSNE().partial_fit(Dataset.from_array(points))
    for decoder in (lambda codes: codes[:3], lambda codes: codes[0], lambda codes: None):
        with pytest.raises(InputError, match=r"3 compressed rows for 40|a table of rows"):
            certify(points, points, decoder=decoder)
    with pytest.raises(InputError, match="sparse matrix; give"):
        certify(points, scipy.sparse.csr_matrix(points))
    gaps = [None, *codes[1:]], ["a", None, *codes[2:]], ["a", np.nan, *map(str, codes[2:])]
    for wrong, words in ((missing, "has nan"), (gaps[2], "integers or strings, not object")):
        with pytest.raises(InputError, match=words):
            maps.map_quality(points, points, wrong)
    for wrong in (missing, missing.astype(object), *gaps):
        with pytest.raises(InputError, match="NaN or None"):
            compare_labelings([codes], [wrong])
    with pytest.raises(InputError, match="all numbers or all words"):
        compare_labelings([codes], [np.array([1, "a"] * 20, dtype=object)])
    for wrong in ({"init": points}, {"start": points}, {"weights": 1}, {"perplexity": "many"}):
        with pytest.raises(InputError, match="must be a"):
            maps.spectrum(points, **wrong)
