"""Several alternatives in turn, each unlike all before, until nothing new is left.

Each run of KDAC is given all labelings found so far.  An alternative counts if it is new, its
normalized mutual information with every earlier labeling at most ``max_overlap``, and clustered:
between every two clusters lies a valley of the density in the subspace.  The first alternative
that does not count ends the search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

import thalweg
from thalweg.data import Dataset
from thalweg.parallel import MPI, agreed, on_root, refuse_differing
from thalweg.plugins import with_options
from thalweg_clustering.build import NoView, build_kdac
from thalweg_clustering.kdac import KDACObjective
from thalweg_clustering.options import KDACOptions
from thalweg_clustering.prepared_data import Preparation
from thalweg_clustering.stiefel_objectives import StiefelObjective
from thalweg_clustering.valleys import SEPARATED, chance_without_valley, dither
from thalweg_clustering.view_search import VIEW_ROWS

#: Options that tell what the first labeling of a task other than an alternative is to reproduce.
SUPERVISION = ("other_labels", "links", "pairs", "label_weight")


@dataclass(frozen=True)
class Alternative:
    """One labeling, and the subspace that shows it.

    Attributes
    ----------
    labels
        This rank's rows.
    components
        Transposed W of the active features, shape ``(q, d)``.
    measures
        Metrics as in ``result.json``: cost, CQ, novelty, condition (10) and others.
    overlaps
        Normalized mutual information with each labeling given, then each one found before.
    valley
        Largest probability of two clusters without a valley between them.
    preparation
        How the rows that W applies to were made of the data.
    outcome
        U, degrees and spectrum; see :meth:`KDACObjective.outcome`.
    result
        :class:`thalweg.Result` of the run; None of a first one that is given.
    objective
        The objective that was minimized; None in a pickled copy.
    """

    labels: np.ndarray
    components: np.ndarray
    measures: dict[str, Any]
    overlaps: tuple[float, ...]
    valley: float
    preparation: Preparation
    outcome: dict[str, Any]
    result: Any
    objective: KDACObjective | None

    def __getstate__(self) -> dict[str, Any]:
        """All but the objective, which holds the ranks' communicator: None in a copy."""
        return {**self.__dict__, "objective": None}

    @property
    def novelty(self) -> float:
        """Largest overlap: 0 is best."""
        return max(self.overlaps, default=0.0)

    def objection(self, max_overlap: float) -> str:
        """Why it is not a further alternative, or an empty string."""
        if self.measures["degenerate"]:
            return f"the clustering is degenerate: {self.measures['degenerate_because']}"
        if self.novelty > max_overlap:
            return (
                f"the clusters repeat an earlier labeling (normalized mutual information "
                f"{self.novelty:.2f}, allowed {max_overlap:.2f})"
            )
        if self.valley > SEPARATED:
            return (
                "the clusters are not separated: between two of them rows are hardly fewer than "
                f"within (chance {self.valley:.3f}, allowed {SEPARATED}); another sigma than "
                f"{self.measures['sigma']:.3g} may show some"
            )
        return ""


@dataclass(frozen=True)
class Alternatives:
    """Alternatives found, and the reason why the search ended.

    Attributes
    ----------
    found
        The alternatives, in the order found.
    refused
        The one that ended the search, or None where as many as wanted, or no further view, were
        found.
    reason
        Why the search ended.
    """

    found: tuple[Alternative, ...]
    refused: Alternative | None
    reason: str


def find_alternatives(
    dataset: Dataset,
    labelings: Sequence[np.ndarray] = (),
    n_alternatives: int = 10,
    solver: Any = "ism",
    max_overlap: float = 0.2,
    stop: Mapping[str, Any] | None = None,
    n_init: int = 1,
    first: Alternative | None = None,
    **options: Any,
) -> Alternatives:
    """Alternatives to the labelings given, one after another.  Collective.

    Parameters
    ----------
    dataset
        The rows; its labels do not count.
    labelings
        Labelings given, each of this rank's or of all rows; none, with no other supervision, begins
        with the unsupervised task.  After the first labeling of a task that reproduces them, or of
        the unsupervised one, come alternatives to those found, without the files and links given.
    n_alternatives, solver, max_overlap, n_init
        As of :class:`~thalweg_clustering.KDAC`.
    stop
        Stopping rules of each run, as :func:`thalweg.minimize` takes them.
    first
        The first alternative, if it is there already.
    options
        See :func:`~thalweg_clustering.build.build_kdac`.
    """
    comm, seed = dataset.comm, options.get("seed", 0)
    limits = n_alternatives, max_overlap, n_init
    count = getattr(labelings, "__len__", int)()
    refuse_differing(comm, "the labelings or options of KDAC", count, *limits)
    known, task = list(labelings), options.pop("task", "alternative")
    told = ("other_labels", *(("links", "pairs") if task == "semi-supervised" else ()))
    if not known and all(options.get(name) is None for name in told):
        task = "unsupervised"
    alternatives, viewed, refused = list[Alternative](), False, None
    reason = f"as many as n_alternatives allows: {n_alternatives}"
    while len(alternatives) < n_alternatives:
        try:  # after a view, the usual width rarely shows more than the search does
            alternative = first or solved(
                build_kdac(
                    dataset, comm, **options, task=task, labelings=known, view_only=viewed
                ),
                solver, seed, n_init, **(stop or {}),
            )  # fmt: skip
        except NoView:
            reason = "no further subspace was found that shows clusters"
            break
        first = None
        objection = alternative.objection(max_overlap)
        # A width that is given is the user's word for what counts as near.
        if objection and (n_alternatives > 1 or options.get("sigma") is None):
            refused, reason = alternative, objection
            break
        alternatives.append(alternative)
        viewed = getattr(alternative.objective, "view", None) is not None
        if task != "alternative":  # the first one of another task has what it was told
            known, options = [], {k: v for k, v in options.items() if k not in SUPERVISION}
        known, task = [*known, alternative.labels], "alternative"
    return Alternatives(tuple(alternatives), refused, reason)


def solved(
    objective: KDACObjective, solver: Any, seed: int = 0, n_init: int = 1, **stop: Any
) -> Alternative:
    """The alternative of least cost of runs from the first start and random ones.  Collective."""
    starts = [StiefelObjective.initial_point(objective, seed + k) for k in range(1, n_init)]
    results = [
        thalweg.minimize(objective, x0, solver=solver, seed=seed, **stop) for x0 in (None, *starts)
    ]
    outcomes = [objective.outcome(result.x) for result in results]
    costs = [outcome["measures"]["cost"] for outcome in outcomes]
    best = agreed(objective.comm, int(np.argmin(costs)))
    return judged(objective, outcomes[best], results[best])


def judged(objective: KDACObjective, outcome: dict[str, Any], result: Any = None) -> Alternative:
    """The alternative of an outcome, with what tells whether it is one.  Collective."""
    valley, ended = _valley(objective, outcome), outcome["components"]
    if valley > SEPARATED and objective.view is not None:
        # The objective may prefer few rows that lie alone, eigenvectors halves of a large cluster.
        for by_rows in (False, True):
            if valley > SEPARATED:
                at_start = objective.outcome_at(objective.view, by_rows)
                pairs = (valley, outcome), (_valley(objective, at_start), at_start)
                valley, outcome = min(pairs, key=lambda pair: pair[0])
        if outcome["components"] is not ended:
            objective.note(
                "labels, W and its measures are those of the view that the search began with, no "
                "fixed point; status and trace are of the run from there, to clusters that are not "
                "separated"
            )
    alternative = objective.task == "alternative"
    overlaps = tuple(objective.overlaps(outcome["labels"])) if alternative else ()
    return Alternative(
        outcome["labels"], outcome["components"].T, outcome["measures"], overlaps, valley,
        objective.preparation, outcome, result, objective,
    )  # fmt: skip


@with_options(KDACOptions)
def build_search(dataset: Dataset, comm: MPI.Comm, **options: Any) -> KDACObjective:
    """The objective of the first alternative, whose metrics judge it and search for the others.

    Collective.
    """
    objective = build_kdac(dataset, comm, **options)
    # Those of other files are among the objective's labelings.
    others = {k: v for k, v in options.items() if k not in ("alternatives", "other_labels")}
    count = KDACOptions(**options).alternatives

    def search(outcome: dict[str, Any]) -> list[Alternative]:
        end = find_alternatives(
            dataset, objective.labelings, count, first=judged(objective, outcome), **others
        )
        if count > 1 or not end.found:
            many = len(end.found) or "0, and labels that do not count"
            objective.note(f"the search for alternatives ended with {many}: {end.reason}")
        return list(end.found) or [cast(Alternative, end.refused)]

    objective.search = search
    return objective


def _valley(objective: KDACObjective, outcome: dict[str, Any]) -> float:
    """The probability of two clusters without a valley between them, on a sample.  Collective."""
    layout, wanted = objective.rows, (objective.kernel.points, outcome["labels"])
    sample, labels = (layout.gather_some(a, layout.spread(VIEW_ROWS)) for a in wanted)
    w = outcome["components"]
    return on_root(objective.comm, lambda: chance_without_valley(dither(sample) @ w, labels))
