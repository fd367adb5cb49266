"""Specs of this plugin: near-isometric linear embeddings and their certificate."""

from thalweg.plugins import CommandSpec, ObjectiveSpec, SolverSpec, hookimpl

#: Of each solver its name, class, estimator, and what ``thalweg list`` says after "near-isometry".
SOLVERS = (
    ("hinge-lbfgs", "hinge:HingeSearch", "NearIsometricEmbedding",
     ": squared hinge on the factor, L-BFGS, cutting planes"),
    ("numax", "numax:NuMaxSearch", "NuMax",
     ": least nuclear norm, by ADMM with eigenvalue thresholding"),
    ("fromax", "fromax:FroMaxSearch", "FroMax",
     ": a factor near a matrix within the bounds, by ADMM"),
    ("nile-pro", "nile_pro:NileProSearch", "NILEPro",
     ": the largest distortion itself, by ADMM with l1-ball steps"),
    ("secant-avoidance", "secant_avoidance:SecantAvoidance", "SecantAvoidanceProjection",
     ": an orthogonal projection turned away from the worst secant"),
    ("hessian-descent", "hessian_descent:HessianDescent", "LearnedJohnsonLindenstrauss",
     ": the probability that Gaussian maps fail, by saddle-free steps"),
    ("candidate-rounds", "kept_neighbors:CandidateRounds", "",
     ": least rank at which nearest rows stay among the first candidates"),
    ("secant-pca", "baselines:SecantPCA", "SecantPCA",
     ", baseline: principal directions of the secants"),
    ("random-projection", "baselines:RandomProjection", "JohnsonLindenstrauss",
     ", baseline: Gaussian random projection"),
    ("adagio", "baselines:Adagio", "ADAGIO",
     ", baseline: principal directions, and a Gaussian projection of the rest"),
)  # fmt: skip


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """The near-isometry."""
    return [
        ObjectiveSpec(
            name="near-isometry",
            summary="a linear map that keeps the lengths of all secants within delta",
            load="thalweg_isometry.near_isometry:build",
            solver="hinge-lbfgs",
            estimate="thalweg_isometry.memory_estimate:estimate",
        )
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """The published methods, the framework's own, and the baselines."""
    return [
        SolverSpec(
            name=name,
            summary=f"near-isometry{summary}",
            load=f"thalweg_isometry.{code}",
            aliases=(estimator,) * bool(estimator),
        )
        for name, code, estimator, summary in SOLVERS
    ]


@hookimpl
def thalweg_commands() -> list[CommandSpec]:
    """The certificate of any matrix."""
    return [
        CommandSpec(
            name="certify",
            summary="delta of a linear map, or changes by any compression, over all pairs of rows",
            load="thalweg_isometry.command:main",
        )
    ]
