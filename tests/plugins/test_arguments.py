"""Arguments of public functions: refused in a sentence before any work, or taken as users mean."""

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg_clustering import compare_labelings
from thalweg_embedding import TSNE, NeighborsTransformer, faithfulness, map_quality
from thalweg_isometry import certify

ROWS = np.random.default_rng(0).normal(size=(30, 3))
PLACES = ROWS[:, :2]
CALLS = {
    "certify": lambda wrong: certify(ROWS, PLACES, quantity="neighbors", n_neighbors=wrong),
    "faithfulness": lambda wrong: faithfulness(ROWS, PLACES, neighbors=wrong),
    "map_quality": lambda wrong: map_quality(ROWS, PLACES, sample=wrong),
    "search": lambda wrong: NeighborsTransformer().fit(ROWS).kneighbors(ROWS, wrong),
    "stability": lambda wrong: TSNE(perplexity=5, max_iter=5).fit(ROWS).stability(2, wrong),
}


@pytest.mark.filterwarnings("ignore:.*max_iter")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("wrong", [3.7, -1, "3"])
def test_what_is_no_whole_number_is_refused(call, wrong):
    with pytest.raises(InputError, match="must be"):
        CALLS[call](wrong)


@pytest.mark.parametrize("wrong", [np.zeros(5), [0, 1, 1], np.zeros((2, 5, 2))])
def test_labelings_are_columns_or_a_list_of_them(wrong):
    with pytest.raises(InputError, match="one label per row"):
        compare_labelings(wrong, np.arange(10).reshape(5, 2))


def test_strings_of_a_data_frame_are_labels():
    names = np.array(["b", "a"] * 15)
    found, expected = (map_quality(ROWS, PLACES, labels=of) for of in (names.astype(object), names))
    assert found == expected
