"""The objective ``kdac`` from a data set and the options of a configuration."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.data import Dataset, read_labels
from thalweg.parallel import MPI
from thalweg_clustering.exact_kernel import STORED_ROWS
from thalweg_clustering.kdac import KDACObjective, make_kdac
from thalweg_clustering.prepared_data import active_features, centred_points, given_labels
from thalweg_clustering.search import search_parameters


def build_kdac(dataset: Dataset, comm: MPI.Comm, **options: Any) -> KDACObjective:
    """The objective of a data set whose labels are the clustering given.  Collective."""
    layout = dataset.layout
    given = given_labels(
        dataset.gather_labels(), layout.rows, "the clustering given ([data] labels)"
    )
    truth = None
    if options.get("truth"):
        truth = given_labels(read_labels(options["truth"], comm), layout.rows, "option 'truth'")
    points = centred_points(layout, dataset.values)
    points = np.ascontiguousarray(points[:, active_features(layout, points)])
    settings = {
        "clusters": options.get("clusters") or int(given.max()) + 1,
        "columns": options.get("components"),
        "sigma": options.get("sigma"),
        "penalty": options.get("lambda", 1.0),
    }
    common: dict[str, Any] = {
        "start": options.get("init", "spectral"),
        "embedding": options.get("embedding", "auto"),
        "features": options.get("fourier_features", 0),
        "stored_rows": options.get("stored_rows", STORED_ROWS),
        "truth": truth,
        "seed": options.get("seed", 0),
        "bound": options.get("condition", True),
    }
    if options.get("search"):
        found = search_parameters(layout, points, given, settings["clusters"],
                                  settings["columns"], seed=common["seed"])  # fmt: skip
        settings.update(columns=found.components, sigma=found.sigma, penalty=found.penalty)
    return make_kdac(layout, points, given, **settings, **common)
