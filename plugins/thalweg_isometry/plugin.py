"""Specs of this plugin: near-isometric linear embeddings and their certificate."""

from __future__ import annotations

from thalweg.plugins import CommandSpec, ObjectiveSpec, SolverSpec, hookimpl


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """The near-isometry."""
    return [
        ObjectiveSpec(
            name="near-isometry",
            summary="a linear map that keeps the lengths of all secants within delta",
            load="thalweg_isometry.objective:build",
            solver="hinge-lbfgs",
            estimate="thalweg_isometry.estimate:estimate",
        )
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """The published methods, the framework's own, and the baselines."""
    methods = {
        "hinge-lbfgs": (
            "near-isometry: squared hinge on the factor, L-BFGS, cutting planes",
            "hinge:HingeSearch",
            "NearIsometricEmbedding",
        ),
        "numax": (
            "near-isometry: least nuclear norm, by ADMM with eigenvalue thresholding",
            "numax:NuMaxSearch",
            "NuMax",
        ),
        "fromax": (
            "near-isometry: a factor near a matrix within the bounds, by ADMM",
            "fromax:FroMaxSearch",
            "FroMax",
        ),
        "nile-pro": (
            "near-isometry: the largest distortion itself, by ADMM with l1-ball steps",
            "nile_pro:NileProSearch",
            "NILEPro",
        ),
        "secant-avoidance": (
            "near-isometry: an orthogonal projection turned away from the worst secant",
            "secant_avoidance:SecantAvoidance",
            "SecantAvoidanceProjection",
        ),
        "hessian-descent": (
            "near-isometry: the probability that Gaussian maps fail, by saddle-free steps",
            "hessian_descent:HessianDescent",
            "LearnedJohnsonLindenstrauss",
        ),
        "secant-pca": (
            "near-isometry, baseline: principal directions of the secants",
            "baselines:SecantPCA",
            "SecantPCA",
        ),
        "random-projection": (
            "near-isometry, baseline: Gaussian random projection",
            "baselines:RandomProjection",
            "JohnsonLindenstrauss",
        ),
    }
    return [
        SolverSpec(
            name=name,
            summary=summary,
            load=f"thalweg_isometry.{code}",
            aliases=(estimator,),
        )
        for name, (summary, code, estimator) in methods.items()
    ]


@hookimpl
def thalweg_commands() -> list[CommandSpec]:
    """The certificate of any matrix."""
    return [
        CommandSpec(
            name="certify",
            summary="delta of a linear map over all secants of a data set, and a rank bound",
            load="thalweg_isometry.command:main",
        )
    ]
