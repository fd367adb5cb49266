"""Scaling agrees with NumPy on the whole array, at any number of ranks."""

import numpy as np
import pytest

from thalweg.data import Dataset, check_magnitude
from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg.workbench.readers import load_data
from thalweg.workbench.readers.load import scale_standard, scale_unit


def rows(count=23):
    return np.random.default_rng(0).standard_normal((count, 6)) * np.arange(1, 7) + 100


@pytest.mark.ranks(1, 2, 3)
def test_standard_scaling_gives_mean_zero_and_variance_one(comm):
    whole = rows()
    wanted = (whole - whole.mean(axis=0)) / whole.std(axis=0)
    whole[:, 2] *= 1e-161  # its squares vanish beside the others
    layout = Layout(comm, *whole.shape)
    values = layout.local(whole).copy()
    assert scale_standard(values, layout) == ()
    assert np.allclose(values, layout.local(wanted), rtol=1e-13, atol=1e-13)


TIMES = 1_700_000_000_000_000 + np.random.default_rng(0).integers(0, 3600, (90, 1))


@pytest.mark.parametrize(
    ("scale", "stored"),
    [
        ("standard", TIMES),  # microseconds
        ("standard", (65_535 - (np.arange(1_000) % 400 == 0)).astype(np.uint16)[:, None]),
        ("standard", np.float32(1e8) + 8 * (TIMES % 10).astype(np.float32)),
        ("unit", TIMES * 1e-66),
    ],
)
def test_values_are_rounded_to_single_precision_when_scaled(tmp_path, scale, stored):
    section = {"path": str(tmp_path / "times.npy"), "scale": scale}
    np.save(section["path"], stored)
    double, single = (load_data({**section, "dtype": f"float{n}"}).values for n in (64, 32))
    assert np.array_equal(single, double.astype(np.float32))
    assert len(np.unique(single)) == len(np.unique(stored)) or scale == "unit"


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    ("unit", "kind"), [(1e200, float), (1e-200, float), (1e20, np.float32), (1e-20, np.float32)]
)
def test_values_that_cannot_be_squared_are_refused_on_all_ranks(comm, unit, kind):
    whole = (rows(3) * unit).astype(kind)
    layout = Layout(comm, *whole.shape)
    match = "too large" if unit > 1 else "too small"
    with pytest.raises(InputError, match=match):
        check_magnitude(layout.local(whole), layout)
    with pytest.raises(InputError, match=match):
        Dataset.from_array(whole, comm=comm)


@pytest.mark.ranks(1, 2, 3)
def test_unit_scaling_divides_by_what_is_possible_or_else_by_the_largest(comm):
    layout = Layout(comm, 2, 2)
    whole = np.array([[0.0, 51.0], [102.0, -204.0]])
    pixels, reals = layout.local(whole).copy(), layout.local(whole).copy()
    scale_unit(pixels, layout, np.dtype(np.uint8))
    scale_unit(reals, layout, np.dtype(float))
    assert np.array_equal(pixels, layout.local(whole / 255))
    assert np.array_equal(reals, layout.local(whole / 204))


@pytest.mark.ranks(1, 2, 3)
def test_components_follow_scaling_in_the_section(comm):
    section = {"name": "wine", "scale": "standard", "components": 2, "dtype": "float32"}
    dataset = load_data(section, comm)
    assert dataset.values.shape == (dataset.layout.local_rows, 2)
    assert dataset.values.dtype == np.float32
    variances = dataset.layout.gather_rows(dataset.values).var(axis=0)
    # The published leading eigenvalues of the correlation matrix of the wine data.
    assert np.allclose(variances, [4.7059, 2.4970], atol=1e-3)


class Frame:
    """What NumPy sees of a data frame."""

    def __init__(self, table):
        self.table = table

    def __array__(self, dtype=None, copy=None):
        return np.array(self.table, dtype=dtype or object)


@pytest.mark.parametrize(
    "table", [Frame([[1, 2.5], [3, 4]]), [[1, 2.5], [3, 4]], np.array([[1, 2.5], [3, 4]], "O")]
)
def test_frames_and_lists_of_rows_become_numbers(table):
    data = Dataset.from_array(table, labels=["b", "a"])
    assert (data.values.dtype, data.values.tolist()) == (np.float64, [[1, 2.5], [3, 4]])
    assert (data.labels.tolist(), data.label_names) == ([1, 0], ("a", "b"))


@pytest.mark.parametrize(
    ("array", "labels", "words"),
    [
        (np.zeros(3), None, r"rows and columns, not the shape \(3,\)"),
        ([[1, 2], [3]], None, "cannot be made an array"),
        (Frame([["a", 1]]), None, "cannot be made an array"),
        (np.zeros((2, 2)) + 1j, None, "must be real numbers"),
        ([[1.0, np.nan]], None, "nan in row 0, column 1"),
        ([[1.0, 2.0**60, 2**53 + 1]], None, "9007199254740993 in row 0, column 2 .* rounds"),
        (np.array([[0, 1], [-(2**53) - 1, 2]]), None, "-9007199254740993 in row 1, column 0"),
        (np.array([[0, 2**64 - 1]], np.uint64), None, "18446744073709551615 in row 0, column 1"),
        (np.array([[0.5, 2**63 + 1]], object), None, "9223372036854775809 in row 0, column 1"),
        (np.array([[0.5, 10**400]], object), None, "cannot be made an array"),
        (Frame([[0.5, 2**53 + 1]]), None, "9007199254740993 in row 0, column 1"),
        (np.zeros((2, 2)), [1, 2, 3], "a label for each of 2 rows"),
        (np.zeros((2, 2)), object(), "a label for each of 2 rows"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(array, labels, words):
    with pytest.raises(InputError, match=words):
        Dataset.from_array(array, labels)


POINTS = np.random.default_rng(0).standard_normal((11, 3))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("rows", [0, 1, 2, 11])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_the_digest_does_not_depend_on_the_ranks(comm, rows, kind):
    whole = POINTS[:rows].astype(kind)
    alone = Dataset.from_array(whole, comm=MPI.COMM_SELF).digests["data"]
    assert Dataset.from_array(whole, comm=comm).digests["data"] == alone


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{"scale": "standard"}, {"scale": "unit"}, {"components": 3}])
def test_nor_on_the_bits_of_scaled_data(comm, options):
    section = {"name": "digits", "rows": 100, **options}
    digests = load_data(section, comm).digests
    assert digests == load_data(section, MPI.COMM_SELF).digests
    assert digests != load_data({**section, "sample": True}, comm).digests


@pytest.mark.ranks(1, 2)
def test_every_entry_and_every_place_counts(comm):
    changed = [POINTS, -POINTS, POINTS[::-1], POINTS[:, ::-1], POINTS[:-1], POINTS + 1e-16]
    changed.append(POINTS.copy())
    changed[-1][7, 2] = np.nextafter(changed[-1][7, 2], 1)
    digests = {Dataset.from_array(points, comm=comm).digests["data"] for points in changed}
    assert len(digests) == len({points.tobytes() + bytes(points.shape) for points in changed})
