"""Specs of this plugin: near-isometric linear embeddings and their certificate."""

from thalweg.plugins import CommandSpec, ObjectiveSpec, SolverSpec, hookimpl

#: What ``thalweg list`` says of the solvers, each after "near-isometry".
SUMMARIES = {
    "hinge-lbfgs": ": squared hinge on the factor, L-BFGS, cutting planes",
    "numax": ": least nuclear norm, by ADMM with eigenvalue thresholding",
    "fromax": ": a factor near a matrix within the bounds, by ADMM",
    "nile-pro": ": the largest distortion itself, by ADMM with l1-ball steps",
    "secant-avoidance": ": an orthogonal projection turned away from the worst secant",
    "hessian-descent": ": the probability that Gaussian maps fail, by saddle-free steps",
    "secant-pca": ", baseline: principal directions of the secants",
    "random-projection": ", baseline: Gaussian random projection",
    "adagio": ", baseline: principal directions, and a Gaussian projection of the rest",
}


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
            summary=f"near-isometry{SUMMARIES[name]}",
            load=f"thalweg_isometry.{code}",
            aliases=(estimator,),
        )
        for name, code, estimator in (
            ("hinge-lbfgs", "hinge:HingeSearch", "NearIsometricEmbedding"),
            ("numax", "numax:NuMaxSearch", "NuMax"),
            ("fromax", "fromax:FroMaxSearch", "FroMax"),
            ("nile-pro", "nile_pro:NileProSearch", "NILEPro"),
            ("secant-avoidance", "secant_avoidance:SecantAvoidance", "SecantAvoidanceProjection"),
            ("hessian-descent", "hessian_descent:HessianDescent", "LearnedJohnsonLindenstrauss"),
            ("secant-pca", "baselines:SecantPCA", "SecantPCA"),
            ("random-projection", "baselines:RandomProjection", "JohnsonLindenstrauss"),
            ("adagio", "baselines:Adagio", "ADAGIO"),
        )
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
