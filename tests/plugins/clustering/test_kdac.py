"""Alternative clustering end to end: what is found, at any number of ranks, and bad input."""

import dataclasses

import numpy as np
import pytest
import threadpoolctl
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score

import thalweg
from thalweg import Dataset
from thalweg.parallel import MPI, on_root
from thalweg_clustering import build
from thalweg_clustering.build import build_kdac
from thalweg_clustering.kmeans import kmeans
from thalweg_clustering.prediction import LabelPredictor


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("options", [{}, {"approximation": "nystrom"}])
def test_the_alternative_is_found_and_is_the_same_on_any_ranks(comm, options, views, make):
    points, given, truth = views(120, noise=2)
    points = points / np.array([1, 1, 1, 1, 3, 3])
    labels = []
    for ranks in (comm, MPI.COMM_SELF):
        objective = make(ranks, points, given, 4, 0.3, 0.3, true_labels=truth, **options)
        result = thalweg.minimize(objective, solver="ism", iterations=100)
        labels.append(np.concatenate(ranks.allgather(result.solution[:, 0])))
        assert result.metrics["novelty"] < 0.02
        if not options.get("approximation"):
            assert result.metrics["nmi"] > 0.95
    np.testing.assert_array_equal(*labels)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(("sigma", "text"), [(1e-8, "too small"), (1e8, "too large")])
def test_a_sigma_far_from_the_distances_is_told_as_the_reason(comm, sigma, text, views, make):
    points, given, _ = views(60)
    objective = make(comm, points, given, sigma=sigma)
    metrics = thalweg.minimize(objective, solver="ism", iterations=2).metrics
    assert metrics["degenerate"]
    assert f"sigma = {sigma:g} is {text}" in metrics["degenerate_because"]
    assert np.isfinite(metrics["cq"])


def written_out(objective, w, labelings, penalty):
    """Measures at W of a Gaussian kernel by their definitions, with matrices of all pairs."""
    points, sigma, n = objective.kernel.points, objective.kernel.sigma, objective.rows.rows
    q, k = w.shape[1], objective.clusters
    squares = ((points[:, None] - points[None]) ** 2).sum(-1)
    z = points @ w / sigma
    kernel = np.exp(-0.5 * ((z[:, None] - z[None]) ** 2).sum(-1))
    center = np.eye(n) - 1.0 / n
    scale = np.diag(kernel.sum(axis=1) ** -0.5)
    values, vectors = np.linalg.eigh(center @ scale @ kernel @ scale @ center)
    inner = vectors[:, -k:] @ vectors[:, -k:].T
    for labels in labelings:
        inner = inner - penalty * (labels[:, None] == labels[None])
    psi = (scale @ center @ inner @ center @ scale) * kernel
    phi = 2.0 / sigma**2 * points.T @ (np.diag(psi.sum(axis=1)) - psi) @ points
    spectrum = np.linalg.eigvalsh(phi)
    moved = phi @ w
    return {
        "cost": -psi.sum(),
        "cq": values[-k:].sum(),
        "residual": np.linalg.norm(moved - w @ w.T @ moved),
        "eigengap": spectrum[q] - spectrum[q - 1],
        "eigengap_components": 1
        + int(np.argmax(np.diff(spectrum)[: (spectrum < 0).sum() or None])),
        "left": sigma**2 * (spectrum[q] - spectrum[q - 1]),
        "right": (abs(psi) * squares**2).sum() / sigma**2,
    }


def test_many_steps_to_the_least_curvature_bring_in_nothing_along_w():
    points = np.random.default_rng(0).standard_normal((60, 40)) * ([5.0] + [1.0] * 39)
    data, comm = Dataset.from_array(points, np.arange(60) // 30), MPI.COMM_SELF
    objective = build_kdac(data, comm, components=1, sigma=3.0, lambda_=0.3, curvature=True)
    result = thalweg.minimize(objective, solver="ism")
    assert result.metrics["least_curvature"] == pytest.approx(0.3172, abs=1e-3)  # LAPACK's


@pytest.mark.parametrize(("sigma", "holds"), [(0.5, False), (1e3, True)])
def test_all_measures_are_those_of_their_definitions(sigma, holds):
    """Among them condition (10), in both outcomes."""
    stream = np.random.default_rng(0)
    given, truth = np.repeat([0, 1], 20), np.arange(40) % 2
    data = Dataset.from_array(stream.standard_normal((40, 3)) * [5.0, 0.1, 0.1], given)
    objective = build_kdac(
        data, MPI.COMM_SELF, components=1, sigma=sigma, lambda_=0.3, true_labels=truth,
        precision="double", curvature=True,
    )  # fmt: skip
    result = thalweg.minimize(objective, solver="ism")
    metrics, labels = result.metrics, result.solution[:, 0]
    wanted = written_out(objective, result.x, [given], 0.3)
    condition = metrics["condition_10"]
    assert condition["holds"] is holds
    if holds:  # Theorem 1
        assert metrics["least_curvature"] >= 0
    for name, value in wanted.items():
        measured = condition[name] if name in condition else metrics[name]
        # The smallest of these are differences of numbers of the size of the eigengap.
        error = 1e-6 * abs(value) + 1e-7 * wanted["eigengap"]
        assert measured == pytest.approx(value, rel=0, abs=error), name
    for name, known in (("novelty", given), ("nmi", truth)):
        assert metrics[name] == pytest.approx(
            normalized_mutual_info_score(known, labels, average_method="geometric"), abs=1e-9
        )


@pytest.mark.parametrize("rule", ["score", "cq"])
def test_tuning_finds_parameters_that_work(rule, views, make):
    points, given, truth = views(60)
    objective = make(MPI.COMM_SELF, points, given, 2, None, 1.0, true_labels=truth, tuning=rule)
    metrics = thalweg.minimize(objective, solver="ism").metrics
    assert metrics["novelty"] < 0.1
    if rule == "score":
        assert metrics["nmi"] > 0.8


@pytest.mark.parametrize(
    ("corners", "wanted"), [([[0], [2], [4]], 1), ([[0, 0], [2, 0], [1, 1.8]], 2)]
)
def test_the_eigengap_chooses_the_dimension_in_which_three_clusters_lie(corners, wanted, make):
    stream = np.random.default_rng(0)
    truth, given = np.arange(120) % 3, np.arange(120) // 3 % 2
    points = np.column_stack([np.array(corners)[truth], 2.0 * given, np.zeros((120, 2))])
    points += 0.3 * stream.standard_normal(points.shape)
    problem = (MPI.COMM_SELF, points, given)
    first = make(*problem, 3, 1.0, 0.3, clusters=3)
    w = thalweg.minimize(first, solver="ism").x
    assert written_out(first, w, [given], 0.3)["eigengap_components"] == wanted
    chosen = make(*problem, None, 1.0, 0.3, clusters=3, choose_components=True)
    assert chosen.layout.columns == wanted


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(("near", "seed"), [(0, 2), (1, 3)])
def test_a_row_like_no_other_joins_the_cluster_beside_it(comm, near, seed):
    """A column of U shows that row alone, which k-means could put with either cluster."""
    stream = np.random.default_rng(seed)
    truth = np.arange(60) % 2
    points = stream.standard_normal((60, 3)) + 8.0 * truth[:, None] * [1, 0, 0]
    last = [8.0 * near, 4.0 + points[truth == near, 1].max(), 0.0]
    data = Dataset.from_array(np.vstack([points, last]), None, comm)
    objective = build_kdac(data, comm, task="unsupervised", clusters=2, components=2, sigma=1.0)
    outcome = objective.outcome(np.eye(3)[:, :2])
    names = ("labels", "embedding", "degrees")
    labels, embedding, degrees = (data.layout.gather_rows(outcome[name]) for name in names)
    assert degrees[-1] < 1.01
    np.testing.assert_array_equal(labels == labels[0], np.append(truth, near) == truth[0])
    z = data.layout.gather_rows(objective.kernel.points)[:, :2]
    values, function = outcome["embedding_values"][:2], objective.kernel.function
    predictor = LabelPredictor.of(z, labels, embedding, values, degrees, function)
    np.testing.assert_array_equal(predictor.predict(z), labels)
    # In a prediction the row beside it decides, not a center.
    swapped = dataclasses.replace(predictor, centers=predictor.centers[::-1])
    np.testing.assert_array_equal(swapped.predict(z) == labels, degrees < 2.0)


@pytest.mark.ranks(1, 2)
def test_the_truth_is_read_like_any_labels(comm, views, folder):
    points, given, truth = views(60)
    words = np.array(["oak", "ash", "-1"])[np.where(np.arange(60) < 50, truth, 2)]
    on_root(comm, lambda: np.savetxt(folder / "t.csv", words, fmt="%s"))
    objective = build_kdac(Dataset.from_array(points, given, comm), comm, truth=folder / "t.csv")
    both = np.stack([objective.rows.gather_rows(objective.truth), truth])
    assert len(np.unique(both[:, both[0] >= 0], axis=1).T) == 2  # of rows that are known


@pytest.mark.ranks(1, 2)
def test_every_eigensolver_of_the_embedding_step_finds_the_same_subspace(comm, views, make):
    points, given, _ = views(90)
    w = np.eye(4)[:, :2]
    found = []
    for chosen in ("lapack", "lobpcg"):
        objective = make(comm, points, given)
        objective.embedding, objective.embedding_tolerance = chosen, 1e-8
        found.append(objective.rows.gather_rows(objective.blocks_at(w, None)[1].vectors))
    np.testing.assert_allclose(np.abs(found[0].T @ found[1]), np.eye(2), atol=1e-5)


@pytest.mark.ranks(1, 2)
def test_a_large_run_by_features_goes_through_levels_of_fewer_rows(comm, views, make, monkeypatch):
    points, given, truth = views(400)
    options = {"approximation": "nystrom", "features": 40, "true_labels": truth}
    monkeypatch.setattr(build, "LEVEL_GROWTH", 2)
    monkeypatch.setattr(build, "SAMPLE_ROWS", 80)
    for rows in (10_000, 50):  # no level between, and two
        monkeypatch.setattr(build, "LEVEL_ROWS", rows)
        result = thalweg.minimize(make(comm, points, given, init="sample", **options), solver="ism")
        levels = ", then 50 evenly spread rows, then 100 evenly spread rows" if rows == 50 else ""
        assert f"started from the subspace of 80 evenly spread rows{levels}" in result.notes
        assert result.metrics["nmi"] > 0.95


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("sums", [{"approximation": "exact"}, {"features": 300}])
def test_sums_begin_where_few_features_end_unless_these_err(comm, views, make, monkeypatch, sums):
    points, given, _ = views(400)
    monkeypatch.setattr(build, "SAMPLE_ROWS", 80)
    options = {"init": "sample", "approximation": "nystrom", **sums}
    evaluations = {}
    for allowed in (1.0, -1.0):
        monkeypatch.setattr(build, "LEVEL_ERROR", allowed)
        result = thalweg.minimize(make(comm, points, given, **options), solver="ism")
        assert any("then all rows by the Nystrom" in note for note in result.notes) == (allowed > 0)
        evaluations[allowed] = result.objective
    np.testing.assert_allclose(evaluations[1.0], evaluations[-1.0], rtol=1e-3)


@pytest.mark.parametrize("rows", ["unit", "published"])
def test_k_means_clusters_rows_of_length_one_or_as_published(rows, make):
    points = np.random.default_rng(3).standard_normal((60, 4))
    options = {"sigma": 1.0, "clusters": 4, "embedding_rows": rows}
    objective = make(MPI.COMM_SELF, points, np.arange(60) % 4, 2, **options)
    found = objective.outcome(objective.initial_point(0))
    lengths = np.linalg.norm(found["embedding"], axis=1, keepdims=True)
    labels = [
        kmeans(objective.rows, found["embedding"] / divisor, 4).labels for divisor in (lengths, 1.0)
    ]
    assert (labels[0] != labels[1]).any()
    np.testing.assert_array_equal(found["labels"], labels[rows == "published"])


@pytest.mark.parametrize("by_rows", [False, True])
def test_an_outcome_is_the_same_at_any_number_of_blas_threads(by_rows):
    data = Dataset.from_array(load_digits().data[:1200], load_digits().target[:1200] % 2)
    costs = []
    for threads in (1, 2):
        objective = build_kdac(data, data.comm)
        with threadpoolctl.threadpool_limits(threads, user_api="blas"):
            w = np.eye(61)[:, 20:22]  # of the columns that vary
            costs.append(objective.outcome_at(w, by_rows)["measures"]["cost"])
    assert costs[0] == costs[1]
