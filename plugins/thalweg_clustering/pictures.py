"""Pictures of alternatives: views side by side, features by weight."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.numerics import principal_components
from thalweg.parallel import MPI, Layout
from thalweg_clustering.estimator import KDAC

#: Samples drawn, evenly spread if there are more.
DRAWN = 5000


def plot_views(model: KDAC, X: Any, y: Any | None = None) -> Any:
    """Samples in the subspace of each alternative, colored by each labeling in turn.

    Row v is the subspace of alternative v, column l a labeling: those given first, then the
    alternatives.  A labeling that a subspace shows has its colors apart, one that it hides
    has them mixed.

    Parameters
    ----------
    model
        A fitted :class:`KDAC`.
    X
        The samples, an array.
    y
        The labelings given, shape ``(n,)`` or ``(n, v)``.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    chosen = np.unique(np.linspace(0, len(X) - 1, min(DRAWN, len(X))).astype(int))
    labelings: list[tuple[str, np.ndarray]] = []
    if y is not None:
        columns = np.asarray(y)[:, None] if np.ndim(y) == 1 else np.asarray(y)
        labelings += [(f"given {c + 1}", columns[:, c]) for c in range(columns.shape[1])]
    for index, alternative in enumerate(model.alternatives_):
        labelings.append((f"alternative {index + 1}", alternative.labels))
    rows, width = len(model.alternatives_), len(labelings)
    figure = Figure(figsize=(2.6 * width, 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, width, squeeze=False)
    for index, line in enumerate(panels):
        flat = _plane(model.transform(X, index))[chosen]
        for axes, (name, labels) in zip(line, labelings, strict=True):
            colors = np.unique(labels, return_inverse=True)[1][chosen]
            axes.scatter(flat[:, 0], flat[:, 1], c=colors, s=4, cmap="tab10", linewidths=0)
            axes.set(xticks=[], yticks=[])
            if index == 0:
                axes.set_title(f"colors: {name}", fontsize=9)
        line[0].set_ylabel(f"subspace of alternative {index + 1}", fontsize=9)
    return figure


def _plane(z: np.ndarray) -> np.ndarray:
    """The two principal axes of projected samples; one component beside its order."""
    if z.shape[1] == 1:
        return np.stack([z[:, 0], np.linspace(-1, 1, len(z)) * max(float(z.std()), 1e-300)], 1)
    return principal_components(z, Layout(MPI.COMM_SELF, *z.shape), 2)


def plot_feature_weights(model: KDAC, names: Sequence[str] | None = None, largest: int = 15) -> Any:
    """Features ranked by their weight in W, the norm of their row, for each alternative.

    Parameters
    ----------
    names
        Names of the features; by default those of the DataFrame that was fitted, or numbers.
    largest
        Number of features shown.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    if names is None:
        known = getattr(model, "feature_names_in_", None)
        count = model.components_.shape[1]
        numbered = [f"feature {index + 1}" for index in range(count)]
        names = numbered if known is None else [str(name) for name in known]
    figure = Figure(figsize=(3.4 * len(model.alternatives_), 3.4), layout="constrained")
    panels = figure.subplots(1, len(model.alternatives_), squeeze=False)[0]
    for index, (axes, alternative) in enumerate(zip(panels, model.alternatives_, strict=True)):
        weights = np.linalg.norm(model.components_of(alternative), axis=0)
        order = np.argsort(-weights, kind="stable")[:largest][::-1]
        axes.barh([names[i] for i in order], weights[order], color="tab:blue")
        axes.set_title(f"alternative {index + 1}", fontsize=9)
        axes.set_xlabel("weight in W")
    return figure
