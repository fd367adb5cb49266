"""Options of the objective ``kdac``: each is declared once, with its type, default and help."""

from dataclasses import dataclass
from typing import Annotated, Literal

from thalweg.plugins import Help
from thalweg_clustering.kdac import Task
from thalweg_clustering.kernels import KernelName


@dataclass(frozen=True, kw_only=True)
class KDACOptions:
    """Options of :func:`~thalweg_clustering.build.build_kdac`."""

    clusters: Annotated[
        int | None, Help("number of clusters; by default that of the given clustering", minimum=1)
    ] = None
    components: Annotated[
        int | None,
        Help(
            "dimension q of the subspace; by default the number of clusters. The run writes the "
            "labels; W is x of the result in Python, components_ of the class KDAC",
            minimum=1,
        ),
    ] = None
    alternatives: Annotated[
        int,
        Help("maximum number of alternatives; solver ism finds those after the first", minimum=1),
    ] = 1
    choose_components: Annotated[
        bool, Help("choose q by the widest eigengap (eq. 11) on a sample")
    ] = False
    task: Annotated[
        Task,
        Help(
            "role of the labels: to differ from them, none, to reproduce them, or to reproduce "
            "those that are known"
        ),
    ] = "alternative"
    kernel: Annotated[KernelName, Help("kernel of the projected rows")] = "gaussian"
    degree: Annotated[int, Help("degree of the polynomial kernel", minimum=1, maximum=20)] = 2
    offset: Annotated[
        float, Help("constant of the polynomial and the multiquadratic kernels", minimum=0)
    ] = 1.0
    sigma: Annotated[
        float | None,
        Help(
            "width of the kernel; by default that of a view, or half the median distance",
            unit="units of the features",
            above=0,
        ),
    ] = None
    bandwidths: Annotated[
        list[float] | None,
        Help(
            "one width per feature, by which it is divided first; sigma is then a factor", above=0
        ),
    ] = None
    lambda_: Annotated[float, Help("weight of the novelty", minimum=0)] = 1.0
    label_weight: Annotated[
        float, Help("weight of the labels and links of a semi-supervised task", minimum=0)
    ] = 1.0
    init: Annotated[
        Literal["auto", "spectral", "published", "random", "sample"],
        Help(
            "first W: eq. 12 from an embedding unlike the labels, or (published) from the "
            "labels; random; from a run on a sample, which auto takes for many rows"
        ),
    ] = "auto"
    tuning: Annotated[
        Literal["auto", "none", "score", "cq"],
        Help(
            "auto: where sigma is not given, search for a view that shows clusters; score, cq: "
            "choose sigma, lambda and the components by tightness, balance and novelty, or by the "
            "paper's rule, the highest CQ where the condition for a local minimum holds"
        ),
    ] = "auto"
    approximation: Annotated[
        Literal["auto", "exact", "fourier", "nystrom"],
        Help(
            "sums over pairs: exact, or by landmarks (nystrom, and its old rival fourier); auto is "
            "exact while that takes about a minute on one core"
        ),
    ] = "auto"
    features: Annotated[int | None, Help("landmarks; by default 256", minimum=1)] = None
    precision: Annotated[
        Literal["auto", "single", "double"],
        Help("of sums over pairs; single for numbers of usual size alone"),
    ] = "auto"
    embedding_rows: Annotated[
        Literal["unit", "published"],
        Help("rows of U that k-means clusters: of length one, or as they are, as published"),
    ] = "unit"
    other_labels: Annotated[
        list[str] | None,
        Help("files of further labelings, to differ from or to reproduce", is_file=True),
    ] = None
    links: Annotated[
        str | None,
        Help(
            "file of lines 'row, row, weight': pairs that should be alike (1) or unlike (-1), by "
            "numbers before [data] chooses rows",
            is_file=True,
        ),
    ] = None
    truth: Annotated[
        str | None, Help("file of labels to compare with, -1 if unknown", is_file=True)
    ] = None
    condition: Annotated[
        bool, Help("evaluate the sufficient condition for a local minimum, eq. 10 of Wu et al.")
    ] = True
    curvature: Annotated[
        bool,
        Help(
            "measure least_curvature: the least eigenvalue of the Lagrangian's Hessian over "
            "subspaces, positive at a local minimum; a pass over all pairs for each product"
        ),
    ] = False
    seed: Annotated[int, Help("seed of k-means and of the features", minimum=0)] = 0
