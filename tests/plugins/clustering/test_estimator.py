"""KDAC as scikit-learn sees it, and several alternatives in turn."""

import itertools
import pickle

import numba
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import thalweg
from thalweg import Dataset, InputError
from thalweg.errors import CheckpointError
from thalweg.parallel import MPI, on_root
from thalweg.result import Status
from thalweg.workbench.readers import load_data
from thalweg.workbench.run.pictures import plot
from thalweg_clustering import EXPECTED_FAILURES, ISM, KDAC, find_alternatives, plot_views
from thalweg_clustering import views as views_of
from thalweg_clustering.agreement import normalized_mutual_information as nmi
from thalweg_clustering.build import build_kdac
from thalweg_clustering.kernels import kernel_function
from thalweg_clustering.prepared_data import given_labels

SETTINGS = {"n_components": 2, "sigma": 0.4, "lambda_": 0.3, "random_state": 0}


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_pass_but_those_that_give_no_clustering():
    outcomes = check_estimator(KDAC(), expected_failed_checks=EXPECTED_FAILURES, on_skip=None)
    failed = {entry["check_name"] for entry in outcomes if entry["status"] == "xfail"}
    assert failed == set(EXPECTED_FAILURES)


def test_fit_finds_the_alternative_and_predict_agrees_with_it(views):
    points, given, truth = views(160)
    names = np.array(["oak", "ash"], dtype=object)[given]  # labels of any type
    old = np.arange(160) % 4 < 2
    model = KDAC(**SETTINGS).fit(points[old], names[old])
    assert nmi(model.labels_, truth[old]) > 0.95
    assert model.novelty_ < 0.01
    assert 0 < model.quality_ <= 2
    assert model.components_.shape == (2, 4)
    assert model.n_iter_ >= 1
    assert model.transform(points).shape == (160, len(model.get_feature_names_out())) == (160, 2)
    assert not model.degenerate_
    np.testing.assert_array_equal(model.predict(points[old]), model.labels_)
    assert nmi(model.predict(points[~old]), truth[~old]) > 0.95
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(points), model.predict(points))
    for method in (model.predict, model.transform):
        for wrong in (1, -2, "a", 0.0):
            with pytest.raises(InputError, match="an integer from 0 to 0, not"):
                method(points, alternative=wrong)
    for times in (3.0, 5.0, 8.0, 1e4):  # little similarity is left: the nearest row decides
        far = points[old].mean(axis=0) * (1 - times) + times * points[old]
        nearest = cdist(model.transform(far), model.transform(points[old])).argmin(axis=1)
        np.testing.assert_array_equal(model.predict(far), model.labels_[nearest])
    again = KDAC(**SETTINGS).fit(points[old], given[old])
    np.testing.assert_array_equal(again.labels_, model.labels_)


def _moons(n=160):
    """Two half moons in two features, two others in two other features."""
    stream = np.random.default_rng(4)
    truth, given = np.arange(n) // 2 % 2, np.arange(n) % 2
    parts = []
    for labels in (truth, given):
        angle = stream.uniform(0, np.pi, n)
        moon = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        parts.append(np.where(labels[:, None], [1.0, 0.5] - moon, moon))
    points = np.concatenate(parts, axis=1) + 0.05 * stream.standard_normal((n, 4))
    return points, given, {"n_components": 2, "sigma": 0.15, "lambda_": 1.0}


def _gaussians():
    stream = np.random.default_rng(1)
    given, truth = stream.integers(0, 2, (2, 200))
    points = 6.0 * np.stack([given, truth, 0 * given], axis=1) + stream.standard_normal((200, 3))
    return points, given, {"n_components": 1, "sigma": 1.0}


def _persons(n=160):
    """Eight groups of few rows in five features, and three others to differ from: like faces."""
    stream = np.random.default_rng(0)
    truth, given = np.arange(n) % 8, np.arange(n) // 8 % 3
    points = np.concatenate([stream.uniform(-4, 4, (8, 5))[truth], 6 * np.eye(3)[given]], axis=1)
    points += stream.standard_normal(points.shape) * 0.7
    return points, given, {"n_clusters": 8, "n_components": 5, "sigma": 1.5, "lambda_": 0.1}


@pytest.mark.parametrize("problem", [_moons, _gaussians, _persons])
def test_labels_of_rows_held_back_are_those_of_a_fit_of_all_rows(problem):
    points, given, settings = problem()
    held = np.arange(len(points)) % 5 == 2
    every = KDAC(random_state=0, **settings).fit(points, given)
    most = KDAC(random_state=0, **settings).fit(points[~held], given[~held])
    np.testing.assert_array_equal(most.predict(points[~held]), most.labels_)
    assert nmi(most.predict(points[held]), every.labels_[held]) >= 0.95


@pytest.mark.parametrize("task", ["supervised", "semi-supervised", "alternative"])
def test_rows_that_were_fitted_get_their_own_clusters_where_classes_overlap(task):
    stream = np.random.default_rng(0)
    given = stream.integers(0, 3, 150)
    points = stream.standard_normal((150, 6))
    points[:, 0] += 1.6 * given
    model = KDAC(n_clusters=3, n_components=2, sigma=0.5, task=task, random_state=0)
    model.fit(points, given)
    np.testing.assert_array_equal(model.predict(points), model.labels_)


@pytest.mark.ranks(2)
def test_a_distributed_dataset_gives_the_same_clusters(comm, views):
    points, given, truth = views(120)
    data = Dataset.from_array(points, None, comm)
    model = KDAC(**SETTINGS, n_alternatives=2).fit(data, given)
    labels = data.layout.gather_rows(model.labels_)
    assert nmi(labels, truth) > 0.95
    alone = KDAC(**SETTINGS, n_alternatives=2).fit(points, given)
    np.testing.assert_array_equal(labels, alone.labels_)
    assert len(model.alternatives_) == len(alone.alternatives_)
    np.testing.assert_array_equal(data.layout.gather_rows(model.predict(data)), labels)
    with pytest.raises(InputError, match=r"the labels of the clustering given .* differ between"):
        KDAC(**SETTINGS).fit(data, np.roll(given, comm.rank).astype(object))
    mine = data.layout.local(given)
    text = mine.astype(str)
    for types in ((mine, "O"), (mine.astype("O"), float), (mine, bool), (text, "O"), (text, "S")):
        typed = types[0].astype(types[1]) if comm.rank else types[0]
        np.testing.assert_array_equal(given_labels(data.layout, typed, "y"), mine)
    with pytest.raises(InputError, match="strings on some ranks and other labels on others"):
        given_labels(data.layout, mine.astype((int, str)[comm.rank]), "y")


@pytest.mark.ranks(1, 2)
def test_a_run_finds_the_alternatives_of_the_estimator_and_shows_them_on_one_page(comm, folder):
    on_root(comm, lambda: np.savez(folder / "a.npz", x=designs(), y=SHAPE))
    config = {
        "data": {"path": f"{folder}/a.npz", "key": "x", "labels": "y"},
        "objective": {"name": "kdac", "components": 1, "sigma": 1.5, "alternatives": 5},
    }
    result = thalweg.run(config, folder / "run", comm=comm)
    model = KDAC(n_components=1, sigma=1.5, n_alternatives=5, random_state=0).fit(designs(), SHAPE)
    expected = np.stack([one.labels for one in model.alternatives_], axis=1)
    np.testing.assert_array_equal(result.solution_layout.gather_rows(result.solution), expected)
    assert expected.shape[1] == 1 + len(result.metrics["alternatives"]) == 2
    assert any("alternatives ended with 2" in note for note in result.notes)
    if comm.rank == 0:
        maps = [np.load(folder / "run" / "views" / f"0{n}.npy") for n in range(2)]
        shown = [*views_of(model, designs(), SHAPE)["stops"].values()]
        np.testing.assert_allclose(maps, shown, atol=0.02 * np.abs(shown).max())
        page = plot(folder / "run", page=True)[-1].read_text()
        assert all(name in page for name in ("view by alternative 2", '"given"', '"alternative 2"'))


@pytest.mark.ranks(1, 2)
def test_of_several_starts_the_one_of_least_cost_counts(comm):
    points, given = np.random.default_rng(1).normal(size=(40, 6)), np.arange(40) % 2
    data = Dataset.from_array(points, None, comm)
    settings = {"components": 1, "sigma": 0.5, "init": "random"}

    def cost(seed, n_init=1):
        found = find_alternatives(data, [given], 1, n_init=n_init, seed=seed, **settings).found
        return found[0].measures["cost"]

    costs = [cost(seed) for seed in range(3)]
    assert min(costs) < costs[0] - 0.1
    assert cost(0, n_init=3) == pytest.approx(min(costs), rel=1e-4)
    assert KDAC(n_components=1, n_init=2, sigma=0.5).fit(data, given).objective_ < 0.0
    with pytest.raises(InputError, match="'n_init' of KDAC must be at least 1"):
        KDAC(n_init=0).fit(data, given)


def test_the_number_of_clusters_can_be_chosen():
    stream = np.random.default_rng(3)
    three, given = stream.integers(0, 3, 150), stream.integers(0, 2, 150)
    corners = np.array([[0, 0], [6, 0], [3, 5]])[three]
    points = np.concatenate(
        [corners, 6.0 * given[:, None], np.zeros((150, 2))], axis=1
    ) + 0.5 * stream.standard_normal((150, 5))
    model = KDAC("auto", sigma=1.0, random_state=0).fit(points, given)
    assert model.alternatives_[0].measures["clusters"] == 3
    assert nmi(model.labels_, three) > 0.9
    chosen = KDAC(3, "auto", sigma=1.0, random_state=0).fit(points, given)
    assert len(chosen.components_) == model.alternatives_[0].measures["eigengap_components"]


def test_a_pipeline_step_a_frame_and_a_kernel_of_ones_own(views):
    points, given, truth = views(100)
    scaled = StandardScaler().fit_transform(points * [1, 10, 100, 1])
    model = KDAC(2, 2, kernel=kernel_function("inverse-multiquadratic"), sigma=0.4, lambda_=0.3)
    assert nmi(model.fit(scaled, given).labels_, truth) > 0.8
    names = ["width", "height", "depth", "mass"]
    pandas = pytest.importorskip("pandas")
    model.fit(pandas.DataFrame(scaled, columns=names), pandas.Series(given))
    assert list(model.feature_names_in_) == names


def test_views_are_maps_of_the_subspaces_with_all_labelings(views):
    points, given, _ = views(100)
    model = KDAC(**SETTINGS).fit(points, given)
    page = views_of(model, points, np.array(["left", "right"])[given], ["side"])
    assert list(page["stops"]) == ["view by alternative 1"]
    assert page["points"] is page["stops"]["view by alternative 1"]
    apart = model.transform(points) - model.transform(points).mean(axis=0)
    np.testing.assert_allclose(page["points"] @ page["points"].T, apart @ apart.T, atol=1e-9)
    assert page["labelings"]["side"][1] == ["left", "right"]
    np.testing.assert_array_equal(page["labelings"]["side"][0], given)
    np.testing.assert_array_equal(page["labelings"]["alternative 1"][0], model.labels_)
    for names in (["alternative 1"], ["a", "b", "c"]):
        with pytest.raises(InputError, match="a name of its own, and no more names"):
            views_of(model, points, given, names)
    with pytest.raises(InputError, match="y has 2 rows of labels for 100 samples"):
        views_of(model, points, [given, given])
    assert len(plot_views(model, points, given).axes) == 2
    assert len(plot_views(KDAC(n_components=1, sigma=0.4).fit(points, given), points).axes) == 1


def test_seeds_threads_and_steps_are_given_as_to_other_estimators(views, monkeypatch):
    points, given, _ = views(100)

    def fitted(**parameters):
        return KDAC(2, 2, sigma=0.4, lambda_=0.3, init="random", **parameters).fit(points, given)

    seeds = [3, np.int64(3), np.random.RandomState(3)]
    first, *others = [fitted(random_state=seed).components_ for seed in seeds]
    for other in others:
        np.testing.assert_array_equal(other, first)
    stream = np.random.default_rng(3)
    drawn = [fitted(random_state=state) for state in (np.random.default_rng(3), stream, stream)]
    np.testing.assert_array_equal(drawn[0].components_, drawn[1].components_)
    assert not np.array_equal(drawn[1].components_, drawn[2].components_)
    with pytest.raises(ValueError, match="'random_state' must be"):
        fitted(random_state="three")

    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        short = fitted(random_state=3, max_iter=np.int64(2))
    assert short.n_iter_ == 2 < fitted(random_state=3, max_iter=None).n_iter_
    assert short.status_ is Status.ITERATION_LIMIT
    with pytest.warns(ConvergenceWarning, match="raise the solver's own limit"):
        assert "limit of rounds ended the run" in " ".join(fitted(solver=ISM(rounds=1)).notes_)

    threads = []
    run = thalweg.minimize

    def spied(*args, **options):
        threads.append((numba.get_num_threads(), options["progress"]))
        return run(*args, **options)

    monkeypatch.setattr(thalweg, "minimize", spied)
    before = numba.get_num_threads()
    fitted(random_state=3, n_jobs=np.int64(1), verbose=1)
    assert (threads, numba.get_num_threads()) == ([(1, True)], before)
    with pytest.raises(ValueError, match="'n_jobs' must be"):
        fitted(n_jobs=0)


def test_a_clustering_given_is_required(views):
    points, given, _ = views(60)
    for labels, words in (
        (None, "requires y"),
        (np.zeros(60), "single cluster"),
        (given[:-1], "inconsistent"),
        ([[0], [1, 2]] * 30, "must have one label per row"),
    ):
        with pytest.raises(InputError, match=words):
            KDAC().fit(points, labels)
    assert len(KDAC(2, task="unsupervised").fit(points).labels_) == 60


def test_rows_without_a_label_are_told_alike_in_all_forms(views, tmp_path):
    points, given, _ = views(90)
    known = np.where(np.arange(90) % 3 == 0, given, -1)
    none = np.array([None if label < 0 else label for label in known], dtype=object)
    named = ["a" if label == 0 else label if label < 0 else "b" for label in known.tolist()]
    settings = {**SETTINGS, "task": "semi-supervised"}
    wanted = KDAC(**settings).fit(points, known)
    assert wanted.embedding_.shape == (90, 2)
    real = known.astype(float)
    absent = np.where(known < 0, np.nan, known)
    saved = np.array([f"{label:.18e}" for label in real])  # as numpy.savetxt writes numbers
    gaps = [np.nan if label == -1 else label for label in named]
    texts = (named, gaps, np.array(named), np.array(named, dtype="S"), real.astype(str), saved)
    for form in (known.astype(object), none, real, absent, absent.astype(object), *texts):
        assert KDAC(**settings).fit(points, form).objective_ == wanted.objective_
    assert KDAC(**settings).fit(Dataset.from_array(points, known)).objective_ == wanted.objective_
    every = KDAC(**settings).fit(points, given.astype(np.uint64))
    assert every.objective_ == KDAC(**settings).fit(points, given).objective_

    np.save(tmp_path / "points.npy", points)
    np.save(tmp_path / "known.npy", known)
    objective = {"name": "kdac", "task": "semi-supervised", "components": 2, "sigma": 0.4}
    data = {"path": str(tmp_path / "points.npy")}
    file = str(tmp_path / "known.npy")
    for section, other in (({**data, "labels": file}, {}), (data, {"other_labels": [file]})):
        result = thalweg.run({"data": section, "objective": {**objective, **other}})
        assert result.metrics["clusters"] == 2
    for form in (none, np.where(given > 0, np.datetime64("2020-01-01"), np.datetime64("NaT"))):
        with pytest.raises(InputError, match="give each row a label"):
            KDAC(**SETTINGS).fit(points, form)
    found = KDAC(**SETTINGS).fit(points, [1 if label else "1" for label in given])
    assert found.objective_ == KDAC(**SETTINGS).fit(points, 1 - given).objective_


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_a_run_is_not_resumed_with_other_files_of_labelings(tmp_path, scale):
    rows = np.random.default_rng(0).normal(size=(40, 4))
    np.savez(tmp_path / "points.npz", X=rows, y=rows[:, 0] > 0)
    np.save(tmp_path / "more.npy", rows[:, 1] > 0)
    config = {
        "data": {"path": f"{tmp_path}/points.npz", "key": "X", "labels": "y", "scale": scale},
        "objective": {"name": "kdac", "clusters": 2, "other_labels": [f"{tmp_path}/more.npy"]},
        "solver": {"name": "ism"},
        "stop": {"iterations": 1},
        "output": {"pictures": False},
    }
    thalweg.run(config, tmp_path / "run")
    np.save(tmp_path / "more.npy", rows[:, 2] > 0)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        thalweg.run({**config, "stop": {"iterations": 9}}, tmp_path / "run", resume=True)


SHAPE, COLOR = np.arange(120) // 2 % 2, np.arange(120) % 2


def designs():
    random = np.random.default_rng(0)
    signs = 2 * np.stack([SHAPE, COLOR, SHAPE ^ COLOR], axis=1) - 1
    return np.concatenate(
        [3 * signs + random.normal(size=(120, 3)), random.uniform(-1, 1, (120, 2))], 1
    )


@pytest.mark.parametrize("task", ["alternative", "unsupervised", "supervised", "semi-supervised"])
def test_rows_that_a_link_joins_are_to_be_alike_in_every_task(task):
    dataset, pairs = Dataset.from_array(designs()), np.array([[0, 1, 1.0], [0, 2, -1.0]])
    objective = build_kdac(
        dataset, MPI.COMM_SELF, labelings=[SHAPE], pairs=pairs, task=task, sigma=1.5
    )
    alike, unlike = objective.links.weights
    assert alike > 0 > unlike


def test_without_a_penalty_the_same_clustering_is_no_second_alternative():
    model = KDAC(n_components=1, n_alternatives=4, sigma=1.5, lambda_=0.0, random_state=0)
    found = model.fit(designs(), SHAPE).alternatives_
    labelings = [SHAPE, *(alternative.labels for alternative in found)]
    for first, labels in enumerate(labelings):
        assert all(nmi(labels, other) < 0.5 for other in labelings[:first])


def test_a_supervised_task_may_start_as_published():
    model = KDAC(n_components=2, task="supervised", init="published", random_state=0)
    assert nmi(model.fit(designs(), SHAPE).labels_, SHAPE) > 0.9


def test_clustered_rows_keep_their_labels_where_u_has_fewer_columns_than_clusters():
    points = np.random.default_rng(0).normal(size=(60, 3))
    model = KDAC(n_components=1, sigma=1.2, random_state=0, max_iter=30)
    model.fit(points, np.arange(60) % 20)
    np.testing.assert_array_equal(model.predict(points), model.labels_)


@pytest.mark.parametrize("rows", [20, 120])
def test_equal_rows_have_equal_labels_where_clusters_are_more(rows):
    points = np.repeat(np.random.default_rng(0).standard_normal((3, 4)), rows, axis=0)
    model = KDAC(4, task="unsupervised", sigma=1.0, random_state=0).fit(points)
    np.testing.assert_array_equal(model.labels_, np.repeat(model.labels_[::rows], rows))
    np.testing.assert_array_equal(model.predict(points), model.labels_)
    assert "1 of 4 clusters have no rows" in model.notes_


@pytest.mark.parametrize("scale", [2.0**-150, 2.0**-100, 2.0**100, 2.0**150])
@pytest.mark.parametrize("sums", ["exact", "nystrom"])
def test_the_unit_of_the_data_changes_nothing(views, scale, sums):
    points, given, _ = views(80)
    settings = {**SETTINGS, "approximation": sums, "precision": "double"}
    usual, other = (
        KDAC(**{**settings, "sigma": 0.4 * unit, "precision": precision}).fit(unit * points, given)
        for unit, precision in ((1.0, "double"), (scale, "auto"))
    )
    np.testing.assert_array_equal(other.labels_, usual.labels_)
    assert other.objective_ == pytest.approx(usual.objective_, rel=1e-9)


@pytest.mark.parametrize("task", ["unsupervised", "supervised", "semi-supervised"])
def test_after_the_first_labeling_of_a_task_come_alternatives_to_it(task):
    known = np.where(np.arange(120) < 80, SHAPE, -1) if task == "semi-supervised" else SHAPE
    model = KDAC(n_components=1, sigma=1.5, task=task, n_alternatives=3, random_state=0)
    found = model.fit(designs(), known).alternatives_
    assert len(found) > 1
    for first, second in itertools.combinations(found, 2):
        assert nmi(first.labels, second.labels) <= model.max_overlap
    rows = slice(80 if task == "semi-supervised" else None)
    if task != "unsupervised":
        assert model.novelty_ == pytest.approx(nmi(model.labels_[rows], SHAPE[rows]))
        assert model.novelty_ > 0.9


def test_supervision_ends_with_the_first_labeling(tmp_path):
    np.savetxt(tmp_path / "more.csv", np.where(np.arange(120) < 80, COLOR, -1), fmt="%d")
    data, links = Dataset.from_array(designs()), np.array([[0, 1, 1.0], [0, 2, -1.0]])
    told = {"task": "semi-supervised", "pairs": links, "label_weight": 2.0}
    settings = {"sigma": 1.5, "components": 1, "other_labels": [str(tmp_path / "more.csv")]}
    search = find_alternatives(data, [], 2, max_overlap=1.0, clusters=2, **told, **settings)
    first, second = (each.objective for each in search.found)
    assert (first.task, second.task) == ("semi-supervised", "alternative")
    np.testing.assert_array_equal(second.labelings, [search.found[0].labels])
    assert not len(second.links.weights)
    assert not any("label_weight" in note for note in search.found[1].result.notes)


def test_files_of_links_and_labels_are_of_the_rows_before_some_are_chosen(tmp_path):
    np.save(tmp_path / "data.npy", designs())
    np.savetxt(tmp_path / "links.csv", [[0, 1, 1.0], [7, 90, -1.0], [3, 90, 1.0]], delimiter=",")
    np.savetxt(tmp_path / "labels.csv", SHAPE, fmt="%d")
    links, labels = str(tmp_path / "links.csv"), str(tmp_path / "labels.csv")
    section = {"path": str(tmp_path / "data.npy"), "rows": 60, "sample": True, "seed": 2}
    data = load_data(section)
    numbers = np.sort(np.random.default_rng(2).choice(120, 60, replace=False))
    options = {"links": links, "other_labels": [labels], "truth": labels, "sigma": 1.5}
    objective = build_kdac(data, data.comm, **options)
    kept = [pair for pair in ([0, 1], [7, 90], [3, 90]) if np.isin(pair, numbers).all()]
    rows = designs() - designs()[numbers].mean(axis=0)
    np.testing.assert_allclose(objective.links.left, rows[[pair[0] for pair in kept]])
    np.testing.assert_allclose(objective.links.right, rows[[pair[1] for pair in kept]])
    np.testing.assert_array_equal(objective.truth, SHAPE[numbers])
    np.testing.assert_array_equal(objective.labelings[0], SHAPE[numbers])
    few = load_data({**section, "rows": 8})
    with pytest.raises(InputError, match="no link has both its rows"):
        build_kdac(few, few.comm, **options)


@pytest.mark.parametrize("option", [{"sigma": 1.5}, {"lambda_": 7.0}])
def test_what_tuning_chooses_cannot_be_given_too(option):
    with pytest.raises(InputError, match="chooses sigma and lambda itself"):
        KDAC(tuning="score", **option).fit(designs(), SHAPE)
