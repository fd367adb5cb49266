"""Pictures of alternatives, side by side or on one page."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.parallel import MPI, Layout
from thalweg_clustering.estimator import KDAC
from thalweg_clustering.prepared_data import plane

#: Samples drawn, evenly spread if there are more.
DRAWN = 5000


def views(model: KDAC, X: Any, y: Any | None = None, names: Sequence[str] = ()) -> dict[str, Any]:
    """What ``write_map_page`` of ``thalweg.workbench.report`` takes to show all on one page.

    Parameters
    ----------
    model, X, y
        As :func:`plot_views` takes them.
    names
        Names of the labelings given, then of the alternatives, such as ``["pose", "person"]``; an
        ``InputError`` if they repeat.
    """
    if y is not None and len(y) != len(X):
        raise InputError(f"y has {len(y)} rows of labels for {len(X)} samples; give shape (n, v)")
    known = [] if y is None else [*np.asarray(y).reshape(len(X), -1).T]
    alternatives = [alternative.labels for alternative in model.alternatives_]
    named = [f"given {number + 1}" for number in range(len(known))]
    named += [f"alternative {number + 1}" for number in range(len(alternatives))]
    named = [*names, *named[len(names) :]]
    if len(set(named)) < len(named) or len(names) > len(known) + len(alternatives):
        raise InputError("give each labeling a name of its own, and no more names than labelings")
    labelings: dict[str, Any] = {}
    for name, labels in zip(named, (*known, *alternatives), strict=True):
        classes, codes = np.unique(labels, return_inverse=True)
        labelings[name] = codes, [str(one) for one in classes]
    layout = Layout(MPI.COMM_SELF, len(X))
    maps = (plane(layout, model.transform(X, number)) for number in range(len(alternatives)))
    stops = {f"view by {name}": flat for name, flat in zip(named[len(known) :], maps, strict=True)}
    return {"points": next(iter(stops.values())), "stops": stops, "labelings": labelings}


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
    shown = views(model, X, y)
    maps, labelings = shown["stops"], shown["labelings"]
    rows, width = len(maps), len(labelings)
    figure = Figure(figsize=(2.6 * width, 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, width, squeeze=False)
    for index, (line, flat) in enumerate(zip(panels, maps.values(), strict=True)):
        for axes, (name, (colors, _)) in zip(line, labelings.items(), strict=True):
            axes.scatter(*flat[chosen].T, c=colors[chosen], s=4, cmap="tab10", linewidths=0)
            axes.set(xticks=[], yticks=[])
            if index == 0:
                axes.set_title(f"colors: {name}", fontsize=9)
        line[0].set_ylabel(f"subspace of alternative {index + 1}", fontsize=9)
    return figure
