"""What this plugin provides."""

from __future__ import annotations

from thalweg.plugins import ObjectiveSpec, Option, PreconditionerSpec, SolverSpec, hookimpl

_ACTIVATIONS = ("tanh", "sigmoid", "relu")

_AUTOENCODER_LAYERS = Option(
    "layers",
    list,
    None,
    "sizes from the columns to the code, then mirrored: [4, 3, 2] is 4-3-2-3-4; or all sizes, "
    "if the last equals the first; d, d/2, d/8 if none",
    minimum=1,
)
_MLP_LAYERS = Option(
    "layers",
    list,
    None,
    "all sizes, from the columns to the number of labels; one hidden layer of 64 if none",
    minimum=1,
)
_ACTIVATION = Option(
    "activation", str, "tanh", "activation of the hidden layers", choices=_ACTIVATIONS
)
_OUTPUT = Option(
    "output",
    str,
    "linear",
    "activation of the output with the squared loss",
    choices=("linear", *_ACTIVATIONS),
)
_TRAINING = (
    Option("l2", float, 0.0, "weight decay; half of it times the squared weights", minimum=0.0),
    Option(
        "initialisation",
        str,
        "glorot",
        "scheme of the starting weights",
        choices=("glorot", "sparse", "normal"),
    ),
    Option("scale", float, 1.0, "factor of the starting weights", above=0.0),
    Option("precision", str, "double", "of the matrix products", choices=("double", "single")),
)
_SPREAD = Option(
    "spread", float, 0.0, "standard deviation of a random shift of the start", minimum=0.0
)


def _size(default: int, minimum: int = 1) -> Option:
    return Option("size", int, default, "number of variables", minimum=minimum)


def _function(name: str, summary: str, *options: Option) -> ObjectiveSpec:
    return ObjectiveSpec(
        name=name,
        summary=summary,
        load=f"thalweg_saddlefree.functions.build:build_{name.replace('-', '_')}",
        data="none",
        solver="saddle-free",
        options=(*options, _SPREAD),
    )


@hookimpl
def thalweg_objectives() -> list[ObjectiveSpec]:
    """Networks, functions of the user's own in JAX, and classical test functions."""
    return [
        ObjectiveSpec(
            name="autoencoder",
            summary="Training error of a deep autoencoder, data rows on the ranks",
            load="thalweg_saddlefree.networks.autoencoder:build_autoencoder",
            solver="saddle-free",
            options=(
                _AUTOENCODER_LAYERS,
                _ACTIVATION,
                Option(
                    "code",
                    str,
                    "linear",
                    "activation of the code layer",
                    choices=("linear", *_ACTIVATIONS),
                ),
                _OUTPUT,
                Option(
                    "loss",
                    str,
                    "squared",
                    "half the squared error, or cross-entropy with logistic outputs",
                    choices=("squared", "cross-entropy"),
                ),
                *_TRAINING,
            ),
        ),
        ObjectiveSpec(
            name="mlp",
            summary="Training error of a multilayer perceptron that predicts the labels",
            load="thalweg_saddlefree.networks.mlp:build_mlp",
            solver="saddle-free",
            options=(
                _MLP_LAYERS,
                _ACTIVATION,
                _OUTPUT,
                Option(
                    "loss",
                    str,
                    "cross-entropy",
                    "softmax cross-entropy, or half the squared error",
                    choices=("cross-entropy", "squared"),
                ),
                *_TRAINING,
            ),
        ),
        ObjectiveSpec(
            name="jax",
            summary="Any JAX function of a tree of arrays, with exact Hessian products",
            load="thalweg_saddlefree.jax_objective:build_jax",
            data="none",
            solver="saddle-free",
            options=(
                Option(
                    "function",
                    str,
                    "",
                    "'module:name' of a function that returns (function, parameters)",
                ),
            ),
        ),
        ObjectiveSpec(
            name="deep-linear",
            summary="A product of matrices that shall equal a given one; saddles at every rank",
            load="thalweg_saddlefree.networks.deep_linear:build_deep_linear",
            data="none",
            solver="saddle-free",
            options=(
                Option("size", int, 6, "rows and columns of the matrices", minimum=1),
                Option("depth", int, 3, "number of matrices", minimum=1),
                Option("start", float, 0.1, "spread of the starting weights", above=0.0),
                Option("seed", int, 0, "seed of the target", minimum=0),
            ),
        ),
        _function("rosenbrock", "Rosenbrock's curved valley in any dimension", _size(2, 2)),
        _function(
            "powell-singular",
            "Powell's function with a singular Hessian at its minimum",
            _size(4, 4),
        ),
        _function("broyden-tridiagonal", "Broyden's tridiagonal least squares", _size(100)),
        _function("monkey-saddle", "The monkey saddle, bounded below by a quartic term"),
        _function("styblinski-tang", "Separable quartic with saddles of every index", _size(20)),
        _function("ginzburg-landau", "A chain of double wells, from beside a saddle", _size(100)),
        _function("himmelblau", "Himmelblau's function, from beside a saddle"),
    ]


@hookimpl
def thalweg_preconditioners() -> list[PreconditionerSpec]:
    """The metric of networks."""
    return [
        PreconditionerSpec(
            name="kronecker",
            summary="Fisher matrix of a network as one Kronecker product per layer (K-FAC)",
            load="thalweg_saddlefree.kronecker.preconditioner:KroneckerPreconditioner",
        )
    ]


@hookimpl
def thalweg_solvers() -> list[SolverSpec]:
    """Saddle-free Newton and Hessian-free optimization."""
    return [
        SolverSpec(
            name="saddle-free-subspace",
            summary="|H| in the span of a few directions, on growing batches of data rows",
            load="thalweg_saddlefree.subspace.saddle_free:SubspaceSaddleFree",
        ),
        SolverSpec(
            name="saddle-free",
            summary="Newton steps with |H| in place of H, from Hessian products alone",
            load="thalweg_saddlefree.saddle_free:SaddleFree",
            options=(
                Option(
                    "way",
                    str,
                    "lanczos",
                    "how |H| is applied: one Lanczos basis, the note's differential equation, "
                    "or shifted solves",
                    choices=("lanczos", "ode", "rational"),
                ),
                Option(
                    "curvature",
                    str,
                    "auto",
                    "products of the Hessian, of the Gauss-Newton matrix, or of whichever "
                    "gained more at its last step",
                    choices=("auto", "hessian", "gauss-newton"),
                ),
                Option("tolerance", float, 0.3, "relative error of a direction", above=0, below=1),
                Option(
                    "progress",
                    float,
                    0.03,
                    "a Lanczos basis ends when a step lowers the model by less than this part",
                    minimum=0.0,
                ),
                Option("steps", int, 150, "most Krylov steps a direction", minimum=1),
                Option(
                    "damping",
                    float,
                    None,
                    "first damping; default a hundredth of the largest Ritz value",
                    unit="curvature",
                    minimum=0.0,
                ),
                Option(
                    "least_damping",
                    float,
                    None,
                    "the damping never falls below it; default 1e-7 of the largest Ritz value",
                    unit="curvature",
                    minimum=0.0,
                ),
                Option(
                    "curvature_rows",
                    int,
                    None,
                    "data rows that curvature products see; default all",
                    unit="rows",
                    minimum=1,
                ),
                Option(
                    "exponent",
                    float,
                    0.75,
                    "power of the diagonal of squared gradients that scales the variables",
                    minimum=0.0,
                    maximum=1.0,
                ),
                Option("seed", int, 0, "seed of samples and probes", minimum=0),
            ),
        ),
        SolverSpec(
            name="hessian-free",
            summary="Gauss-Newton steps by truncated conjugate gradients (Martens 2010)",
            load="thalweg_saddlefree.hessian_free:HessianFree",
            options=(
                Option("damping", float, 1.0, "first damping", unit="curvature", above=0.0),
                Option("progress", float, 5e-4, "CG stops at less progress than this", above=0.0),
                Option("steps", int, 250, "most CG iterations a direction", minimum=1),
                Option(
                    "decay",
                    float,
                    0.95,
                    "factor of the last direction as the start of CG",
                    minimum=0.0,
                    maximum=1.0,
                ),
                Option(
                    "exponent",
                    float,
                    0.75,
                    "power of the diagonal preconditioner; 0 switches it off",
                    minimum=0.0,
                    maximum=1.0,
                ),
                Option(
                    "curvature_rows",
                    int,
                    None,
                    "data rows that curvature products see; default all",
                    unit="rows",
                    minimum=1,
                ),
                Option("seed", int, 0, "seed of samples", minimum=0),
            ),
        ),
    ]
