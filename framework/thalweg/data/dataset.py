"""A data set whose rows lie on the ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from thalweg.data.magnitude import largest_value, refuse_magnitude
from thalweg.parallel import MPI, Layout


@dataclass(frozen=True)
class Dataset:
    """Rows of numbers, distributed, with optional labels.

    Attributes
    ----------
    values
        This rank's rows, shape ``(layout.local_rows, layout.columns)``, float32 or float64.
    layout
        Global shape and distribution.
    labels
        Label of every row, on every rank, shape ``(layout.rows,)``, integers; or None.
    name
        For titles and messages.
    label_names
        Text of label ``i`` at position ``i``, or None.
    image_shape
        Shape of a row seen as a picture, or None.
    notes
        Sentences on what the loader did that the user might not expect.
    """

    values: np.ndarray
    layout: Layout
    labels: np.ndarray | None = None
    name: str = "data"
    label_names: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def comm(self) -> MPI.Comm:
        """The ranks that hold the rows."""
        return self.layout.comm

    @property
    def local_labels(self) -> np.ndarray | None:
        """Labels of this rank's rows."""
        return None if self.labels is None else self.labels[self.layout.start : self.layout.stop]

    def with_values(self, values: np.ndarray) -> Dataset:
        """The same rows with other columns; ``values`` has this rank's rows."""
        layout = self.layout.with_columns(values.shape[1])
        return replace(self, values=values, layout=layout, image_shape=None)

    @classmethod
    def from_array(
        cls,
        array: np.ndarray,
        labels: np.ndarray | None = None,
        comm: MPI.Comm = MPI.COMM_SELF,
        name: str = "data",
    ) -> Dataset:
        """Data set of an array that every rank of ``comm`` has whole.

        Raises
        ------
        InputError
            Values whose squares overflow or vanish.
        """
        refuse_magnitude(largest_value(array), array.dtype, array.shape)
        layout = Layout(comm, array.shape[0], array.shape[1])
        return cls(np.ascontiguousarray(layout.local(array)), layout, labels, name)
