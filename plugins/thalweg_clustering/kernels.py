"""Kernel functions of the family, each given by a function of one number and its derivatives.

A kernel is k(beta), where beta_ij is either the squared distance |z_i - z_j|^2 or the inner product
z_i'z_j of the projected rows z = W'x / sigma.  Everything else follows from k' and k'', as
MATHEMATICS.md shows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from thalweg.errors import InputError
from thalweg.numerics import squared_distances

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class KernelFunction:
    """A kernel function with its first two derivatives; users may define their own.

    Attributes
    ----------
    name
        For messages and results.
    of
        ``"distance"``: beta is a squared distance; ``"product"``: an inner product.
    value, first, second
        k, k' and k'', from an array of beta to a new array of its shape.
    normalized
        Whether the kernel matrix is divided by its row sums, D^(-1/2) K D^(-1/2), which
        needs a positive kernel.
    parameters
        Degree and offset of a built-in kernel.

    Examples
    --------
    >>> cauchy = KernelFunction("cauchy", "distance", lambda b: 1 / (1 + b),
    ...                         lambda b: -1 / (1 + b) ** 2, lambda b: 2 / (1 + b) ** 3)
    >>> float(cauchy.value(np.array([1.0]))[0])
    0.5
    """

    name: str
    of: str
    value: Function
    first: Function
    second: Function
    normalized: bool = True
    parameters: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Built-in kernels are pickled by name, their functions being no module's."""
        if self.parameters:
            return kernel_function, (self.name, *self.parameters)
        fields = (self.name, self.of, self.value, self.first, self.second, self.normalized)
        return KernelFunction, fields

    def beta(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """beta of all rows of ``a`` with all of ``b``, shape ``(len(a), len(b))``."""
        return squared_distances(a, b) if self.of == "distance" else a @ b.T

    @property
    def positive(self) -> bool:
        """Whether the kernel matrix has no negative eigenvalues; of a user's own it is assumed."""
        return not self.parameters or self.name not in ("squared", "multiquadratic")

    @property
    def gaussian(self) -> bool:
        """Whether it is the built-in Gaussian kernel, whose sums are compiled."""
        return self.name == "gaussian" and bool(self.parameters)


def symmetric(matrix: np.ndarray) -> np.ndarray:
    """Symmetric part, so that rounding cannot make it anything else."""
    return 0.5 * (matrix + matrix.T)


def _power(
    name: str, of: str, sign: float, exponent: float, offset: float, normalized: bool
) -> KernelFunction:
    """The kernel ``sign * (beta + offset)^exponent``."""

    def derivative(order: int) -> Function:
        scale = sign * float(np.prod(exponent - np.arange(order)))
        return lambda b: scale * (b + offset) ** (exponent - order) if scale else np.zeros_like(b)

    return KernelFunction(name, of, derivative(0), derivative(1), derivative(2), normalized)


#: Names of the built-in kernels.
KernelName = Literal[
    "gaussian", "linear", "polynomial", "squared", "multiquadratic", "inverse-multiquadratic"
]
KERNELS = get_args(KernelName)


def kernel_function(name: str, degree: int = 2, offset: float = 1.0) -> KernelFunction:
    """A built-in kernel, as MATHEMATICS.md lists them; those with row sums are normalized.

    The multiquadratic and the squared kernel grow with the distance in the literature;
    their sign is turned here, so that a larger k always means more alike.

    Parameters
    ----------
    degree
        p of the polynomial kernel.
    offset
        c.

    Raises
    ------
    InputError
        An unknown name.
    """
    c = float(offset)
    if name in ("multiquadratic", "inverse-multiquadratic") and not c > 0:
        raise InputError(f"the offset of the {name} kernel must be greater than 0, not {offset!r}")
    powers = {
        "linear": ("product", 1.0, 1, 0.0, False),
        "polynomial": ("product", 1.0, int(degree), c, False),
        "squared": ("distance", -1.0, 1, 0.0, False),
        "multiquadratic": ("distance", -1.0, 0.5, c, False),
        "inverse-multiquadratic": ("distance", 1.0, -0.5, c, True),
    }
    if name in powers:
        kernel = _power(name, *powers[name])
    elif name == "gaussian":
        kernel = KernelFunction(
            "gaussian", "distance", lambda b: np.exp(-0.5 * b), lambda b: -0.5 * np.exp(-0.5 * b),
            lambda b: 0.25 * np.exp(-0.5 * b),
        )  # fmt: skip
    else:
        raise InputError(f"the kernel must be one of {', '.join(KERNELS)}, not {name!r}")
    return replace(kernel, parameters=(degree, offset))
