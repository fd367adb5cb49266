"""Named data sets: bundled ones, generated ones, a plugin's, and OpenML's."""

import numpy as np
import pytest

from thalweg.workbench.readers import data_options, data_sets, load_data


def whole(dataset):
    return dataset.layout.gather_rows(dataset.values)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("name", ["blobs", "swiss-roll", "s-curve", "moons"])
def test_generated_sets_do_not_depend_on_the_ranks(comm, name):
    from thalweg.parallel import MPI

    section = {"name": name, "rows": 11, "seed": 4, "noise": 0.1}
    if name == "blobs":
        del section["noise"]
    shared, alone = load_data(section, comm), load_data(section, MPI.COMM_SELF)
    assert np.array_equal(whole(shared), alone.values)
    assert np.array_equal(shared.gather_labels(), alone.labels)
    other = load_data({**section, "seed": 5}, MPI.COMM_SELF)
    assert not np.array_equal(other.values, alone.values)


def test_every_named_set_is_described_and_has_options_that_the_section_accepts():
    names = [spec.name for spec in data_sets()]
    assert {"digits", "iris", "wine", "breast-cancer", "blobs", "swiss-roll", "openml"} <= set(
        names
    )
    for spec in data_sets():
        assert spec.summary
        assert callable(spec.resolve())
    assert "noise" in {option.name for option in data_options("moons")}
    assert "noise" not in {option.name for option in data_options("iris")}


@pytest.mark.ranks(1, 2)
def test_openml_goes_through_scikit_learn(comm, monkeypatch):
    import sklearn.datasets
    from sklearn.utils import Bunch

    def fetch(name, version, as_frame, parser):
        assert (name, version, as_frame) == ("trees", 2, False)
        return Bunch(
            data=np.arange(6.0).reshape(3, 2), target=np.array(["b", "a", "b"], dtype=object)
        )

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    dataset = load_data({"name": "openml:trees", "version": 2}, comm)
    assert np.array_equal(whole(dataset), np.arange(6.0).reshape(3, 2))
    assert dataset.gather_labels().tolist() == [1, 0, 1]
    assert dataset.label_names == ("a", "b")
