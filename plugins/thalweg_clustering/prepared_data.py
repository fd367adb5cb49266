"""Rows and labels as the objective wants them: checked, centered, without constant features."""

from dataclasses import dataclass

import numpy as np

from thalweg.data import check_magnitude, is_missing, is_unknown, label_array, plain_label
from thalweg.errors import InputError, refuse_masked
from thalweg.numerics import principal_components, squared_distances
from thalweg.parallel import (
    MPI,
    Layout,
    any_over_ranks,
    max_over_ranks,
    nth_over_ranks,
    raise_on_all_ranks,
    refuse_differing,
    rows_at,
    sum_over_ranks,
)

#: Label of rows whose cluster is not known.
UNKNOWN = -1

#: Rows whose distances from all others are computed at one time for their median.
MEDIAN_BLOCK = 16


@dataclass(frozen=True)
class Preparation:
    """How rows were made of the data: points = (x - mean)[active] / scale[active].

    Means of all features, what each was divided by, and which are not constant.
    """

    mean: np.ndarray
    scale: np.ndarray
    active: np.ndarray


def distributed_sample(
    layout: Layout, count: int, *arrays: np.ndarray
) -> tuple[Layout, np.ndarray, list[np.ndarray]]:
    """Up to ``count`` evenly spread rows over the ranks.  Collective.

    Their layout, with the number of columns of the first array; the numbers of all of them; and
    this rank's rows of the arrays' samples.
    """
    chosen = layout.spread(count)
    sample = Layout(layout.comm, len(chosen), arrays[0].shape[1])
    mine = chosen[sample.start : sample.stop]
    return sample, chosen, [rows_at(layout, array, mine) for array in arrays]


def median_distance(layout: Layout, points: np.ndarray, largest_sample: int = 2000) -> float:
    """Median distance between rows, of evenly spread ones if there are many.  Collective."""
    sample = layout.gather_some(points, layout.spread(largest_sample))
    # Blocks are dealt to the ranks, the same ones whatever their number: so are the products.
    parts, step = [np.zeros(0)], MEDIAN_BLOCK
    for first in range(step * layout.comm.rank, len(sample), step * layout.comm.size):
        block = squared_distances(sample[first : first + step], sample[first:])
        parts.append(block[np.triu_indices(len(block), 1, block.shape[1])])
    pairs = np.concatenate(parts)
    del parts
    median = float(np.sqrt(_median(layout.comm, pairs)))
    if not median > 0:
        if len(np.unique(sample, axis=0)) > 0.5 * len(sample) + 1:  # not that most are equal
            raise InputError(
                "a row lies so far off that no digits are left for the distances of the others: "
                "remove outliers, or scale the data"
            )
        largest = float((sample**2).sum(axis=1).max(initial=0.0))
        median = float(np.sqrt(_median(layout.comm, pairs[pairs > 1e-12 * max(largest, 1e-300)])))
    return float(layout.comm.bcast(median, root=0))


def _median(comm: MPI.Comm, values: np.ndarray) -> float:
    """Median of all ranks' values, none negative; 0 of none.  Collective."""
    total = sum(comm.allgather(len(values)))
    middle = {(total - 1) // 2, total // 2} if total else ()
    return float(np.mean([nth_over_ranks(comm, values, n) for n in middle] or [0.0]))


def centered_points(layout: Layout, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """This rank's rows in float64 with their mean removed, and the mean.  Collective.

    Values that are not finite, or whose squares overflow or vanish, are refused.
    """
    points = np.array(values, dtype=float)
    if any_over_ranks(layout.comm, not np.isfinite(points).all()):
        raise InputError("the data contain NaN or infinite values; remove or replace them")
    check_magnitude(points, layout.with_columns(points.shape[1]))
    means = np.asarray(sum_over_ranks(layout.comm, points.sum(axis=0))) / max(1, layout.rows)
    points -= means
    return points, means


def active_features(layout: Layout, points: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Which features vary by more than rounding of their means, shape ``(d,)``, bool.  Collective.

    That of a sum of so many rows: ``points`` lack these means.
    """
    squares = np.asarray(sum_over_ranks(layout.comm, np.einsum("ij,ij->j", points, points)))
    rounding = np.finfo(float).eps * max(64, layout.rows) * np.abs(means)
    return np.asarray(squares > layout.rows * rounding**2)


def given_labels(
    layout: Layout, labels: np.ndarray | None, what: str, unknown: bool = False
) -> np.ndarray:
    """This rank's labels as integers 0 to k' - 1, that mean the same on all ranks.  Collective.

    ``labels``, those of this rank or of all, are of any type that can be sorted; ``what`` is their
    name in messages.  If ``unknown``, -1, an empty string, None, NaN or NA marks a row of which
    nothing is known.  None given, another number than rows, or a single cluster are refused, and
    labels of all that are not the same on all ranks.
    """
    with raise_on_all_ranks(layout.comm):
        if labels is None:
            raise InputError(f"{what} is needed: give the labels of an existing clustering")
        refuse_masked(labels, f"the labels of {what}")
        labels = label_array(labels)
        count = labels.shape[0] if labels.ndim == 1 else -1
        if count not in (layout.local_rows, layout.rows):
            raise InputError(
                f"{what} has labels of shape {labels.shape} for {layout.rows} rows; give one label "
                "per row"
            )
    if any_over_ranks(layout.comm, count != layout.local_rows):  # those of all rows are given
        plain = labels.astype(str) if labels.dtype == object else labels
        refuse_differing(layout.comm, f"the labels of {what}", plain)
    if count != layout.local_rows:
        labels = layout.local(labels)
    finite = labels.dtype.kind in "USO" or bool((np.isfinite(labels) | (labels != labels)).all())
    if not unknown:
        finite = finite and not any(map(is_missing, labels))
    if any_over_ranks(layout.comm, not finite):
        raise InputError(f"{what} contains NaN or infinity; give each row a label")
    texts = {labels.dtype.kind in "SU"} if len(labels) else set()
    if labels.dtype == object:
        texts = {isinstance(label, str | bytes) for label in labels if not is_missing(label)}
    every = layout.comm.allgather(texts)
    if {True} in every and {False} in every and {True, False} not in every:
        raise InputError(
            f"{what} has strings on some ranks and other labels on others; give labels of one type"
        )
    if labels.dtype.kind == "S":  # as HDF5 and FITS have strings
        labels = np.char.decode(labels, "utf-8", "backslashreplace")
    if any_over_ranks(layout.comm, labels.dtype == object):
        # A number and its digits have two names.
        equal = ["" if unknown and label == -1 else label for label in map(plain_label, labels)]
        labels = np.array([x if isinstance(x, str) else f"\0{x}" for x in equal], str)
    here = np.unique(labels)
    names = np.unique(np.concatenate([part for part in layout.comm.allgather(here) if len(part)]))
    if unknown:
        names = names[[name == name and not is_unknown(str(name)) for name in names]]
    if len(names) < 2:
        raise InputError(
            f"{what} has {'a single' if len(names) else 'no'} cluster; give labels of at least two"
        )
    places = np.minimum(np.searchsorted(names, labels), len(names) - 1)
    return np.where(names[places] == labels, places, UNKNOWN).astype(np.int64)


def plane(layout: Layout, z: np.ndarray) -> np.ndarray:
    """The two principal axes of projected rows; one component beside its order.  Collective."""
    if z.shape[1] > 1:
        return principal_components(z, layout.with_columns(z.shape[1]), 2)
    largest = max_over_ranks(layout.comm, float(np.abs(z).max(initial=1e-300)))
    order = np.linspace(-1.0, 1.0, layout.rows)[layout.start : layout.stop]
    return np.column_stack([z, 0.5 * largest * order])


def centered_indicators(layout: Layout, labels: np.ndarray) -> np.ndarray:
    """This rank's rows of a thin factor of H YY' H, of its rows' labels.  Collective."""
    groups = int(max_over_ranks(layout.comm, labels.max(initial=0))) + 1
    known = labels != UNKNOWN
    indicator = np.zeros((len(labels), groups))
    indicator[known, labels[known]] = 1.0
    sizes = np.asarray(sum_over_ranks(layout.comm, indicator.sum(axis=0)))
    centered = indicator - sizes / layout.rows
    if not max_over_ranks(layout.comm, float(not known.all())):
        # The rows of HY are orthogonal to the vector of ones: a basis of the complement
        # loses nothing.
        ones = np.ones((groups, 1))
        helmert = np.linalg.qr(np.concatenate([ones, np.eye(groups)[:, 1:]], axis=1))[0]
        centered = centered @ helmert[:, 1:]
    return np.asarray(centered)
