"""A data set whose rows are distributed over the ranks."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from thalweg.data.entries import (
    check_magnitude,
    encode_labels,
    entry_error,
    first_unusable,
    mark_unknown,
    refuse_rounded,
)
from thalweg.errors import InputError, refuse_masked
from thalweg.parallel import MPI, Identified, Layout, raise_on_all_ranks, refuse_differing
from thalweg.parallel.identity import DATA


@dataclass(frozen=True)
class Dataset(Identified):
    """Rows of numbers, distributed, with optional labels.

    To make one is collective: rows or labels of any rank that do not fit are refused on all.

    Attributes
    ----------
    values
        This rank's rows, shape ``(layout.local_rows, layout.columns)``, float32 or float64; they
        cannot be written into, since what comes later reads them too.
    layout
        Global shape and distribution.
    labels
        Labels of this rank's rows, shape ``(layout.local_rows,)``, integers from 0; or None.
    name
        For titles and messages.
    label_names
        Text of label ``i`` at position ``i``, or None.
    image_shape
        Shape of a row seen as a picture, or None.
    notes
        Sentences on what the loader did that the user might not expect.
    digest
        Digest of the rows before their scaling, the bits of which depend on the number of ranks;
        empty where the values are not scaled.
    chosen
        Which rows of the source these are, shape ``(rows of the source,)``; None for all.
    """

    values: np.ndarray
    layout: Layout
    labels: np.ndarray | None = None
    name: str = "data"
    label_names: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    digest: str = ""
    chosen: np.ndarray | None = None

    def __post_init__(self) -> None:
        rows, labels = getattr(self, "sparse", self.values), self.labels
        with raise_on_all_ranks(self.comm):
            refuse_masked(rows, "the data")
            fits = rows.shape == self.layout.shape and rows.dtype.kind in "buif"
            if labels is not None:
                fits &= labels.shape == rows.shape[:1] and labels.dtype.kind in "iu"
            if not fits:
                raise InputError(
                    f"a rank's rows must be real numbers of shape {self.layout.shape}, and their "
                    "labels, if any, as many integers from 0"
                )
        refuse_differing(self.comm, "the type of rows, or labels", rows.dtype, labels is None)
        # MPI does not know an order that is named, though it were the machine's own.
        values = self.values.astype(self.values.dtype.newbyteorder("="), copy=False)
        values = values.view(values.dtype.newbyteorder("="))
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    @cached_property
    def digests(self) -> dict[str, str]:
        """Digests of the data and the labels, the same at any rank count.  Collective."""
        known = self.partial_labels()
        labels = "" if known is None else self.layout.digest(known.astype("<i8"))
        return {"data": self.digest or self.layout.digest(self.values), "labels": labels}

    @property
    def comm(self) -> MPI.Comm:
        """The ranks that hold the rows."""
        return self.layout.comm

    def identity(self) -> dict[str, Any]:
        """Rows and labels, whatever they are called."""
        digests = {what: DATA + digest for what, digest in self.digests.items()}
        return {**digests, "layout": self.layout, "sparse": getattr(self, "sparse", None)}

    def partial_labels(self) -> np.ndarray | None:
        """Labels of this rank's rows, -1 for unknown ones; None without labels."""
        return None if self.labels is None else mark_unknown(self.labels, self.label_names)

    @property
    def numbers(self) -> np.ndarray | None:
        """Of each row of the source its number here, -1 where it is left out; None for all."""
        return None if self.chosen is None else np.where(self.chosen, self.chosen.cumsum() - 1, -1)

    def has_unlabeled_rows(self) -> bool:
        """Whether rows lack a label; -1 may be a class, as beside 1."""
        return "" in (self.label_names or ())

    def gather_labels(self) -> np.ndarray | None:
        """Labels of all rows on every rank, shape ``(layout.rows,)``, or None.  Collective."""
        return None if self.labels is None else self.layout.gather_rows(self.labels)

    def with_values(self, values: np.ndarray) -> Self:
        """The same rows with other columns; ``values`` has this rank's rows."""
        layout = self.layout.with_columns(values.shape[1])
        return replace(self, values=values, layout=layout, image_shape=None)

    @classmethod
    def from_array(
        cls, array: Any, labels: Any = None, comm: MPI.Comm = MPI.COMM_SELF, name: str = "data"
    ) -> Self:
        """Data set of an array that every rank of ``comm`` has whole.  Collective.

        Parameters
        ----------
        array
            Real numbers, shape ``(rows, columns)``: an array, a list of rows, or a data
            frame.  Numbers other than float32 and float64 become float64; an array of these is
            not copied, and not to be changed while the data set is used.
        labels
            A label for each row, shape ``(rows,)``, numbers or strings.
        comm
            The ranks that share the rows.
        name
            For titles and messages.

        Raises
        ------
        InputError
            Another shape, columns of strings or objects, a sparse matrix, NaN or
            infinity, integers that float64 rounds, values whose squares overflow or vanish,
            labels that do not fit, or shapes that differ between ranks.
        """
        names = None
        with raise_on_all_ranks(comm):
            values = _as_table(array)
            if labels is not None:
                if np.shape(labels)[:1] != values.shape[:1]:
                    raise InputError(
                        f"there must be a label for each of {len(values)} rows, not labels of "
                        f"shape {np.shape(labels)}"
                    )
                labels, names = encode_labels(labels, "the labels")
        refuse_differing(comm, "the shapes of the array", values.shape)
        layout = Layout(comm, values.shape[0], values.shape[1])
        check_magnitude(values, layout)
        if labels is not None:
            labels = labels[layout.start : layout.stop].copy()
        return cls(np.ascontiguousarray(layout.local(values)), layout, labels, name, names)


def comm_of(data: Any) -> MPI.Comm:
    """The ranks that share the data: those of a Dataset, this process alone for all else."""
    return data.comm if isinstance(data, Dataset) else MPI.COMM_SELF


def validate_data(estimator: Any, X: Any, **options: Any) -> Any:
    """scikit-learn's function of this name, which itself rounds large integers silently.

    Raises
    ------
    InputError
        Integers that float64 rounds.
    ValueError
        What scikit-learn refuses.
    """
    from sklearn.utils import validation

    refuse_rounded(X)
    valid = validation.validate_data(estimator, X, **options)
    if hasattr(valid, "sum_duplicates") and not valid.has_canonical_format:
        valid = valid.copy()  # it may be the user's
        valid.sum_duplicates()  # each of which scikit-learn's norms count alone
    return valid


def _as_table(array: Any) -> np.ndarray:
    """Real numbers in rows and columns, of one of the two floating-point types."""
    if hasattr(array, "toarray"):
        raise InputError("the data are a sparse matrix; give their toarray()")
    refuse_rounded(array)
    try:
        values = np.asarray(array)
        if values.dtype.kind == "O":  # a data frame of several types, or nested lists
            values = values.astype(float)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"the data cannot be made an array of real numbers: {error}") from error
    if values.ndim != 2:
        raise InputError(f"the data must have rows and columns, not the shape {values.shape}")
    if values.dtype.kind not in "buif":
        raise InputError(f"the data must be real numbers, not {values.dtype}")
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(float)
    at = first_unusable(values)
    if at >= 0:
        row, column = divmod(at, values.shape[1])
        raise entry_error("the data have", values[row, column], row, column)
    return values
