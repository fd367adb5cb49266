"""Pair functions with parameters: Student kernels of any tails, cross-entropies, PaCMAP's."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.numerics import exponential
from thalweg_embedding.pairs.functions import (
    STUDENT,
    PairFunction,
    log_one_plus,
    log_one_plus_single,
)

#: An attraction and a repulsion.
Functions = tuple[PairFunction, PairFunction]

#: Offsets of the squared distance below this make a repulsion that a mesh sees as singular.
SINGULAR_OFFSET = 0.1


@functools.cache
def student_functions(degrees_of_freedom: float) -> Functions:
    """-log k and k for k = (1 + d/a)^-a, a = (nu + 1)/2: Student's density in other units.

    nu = 1 is t-SNE's kernel, and the limit of many degrees of freedom is exp(-d).  Kobak,
    Linderman, Steinerberger, Kluger and Berens (2020) write a, which may be any positive number;
    nu lies above -1 accordingly.
    """
    a = 0.5 * (degrees_of_freedom + 1.0)
    over_a, beyond = 1.0 / a, 1.0 + 1.0 / a

    def logarithm(real: Any) -> Callable[..., Any]:
        one, factor, slope = real(1.0), real(a), real(over_a)
        log = log_one_plus if real is float else log_one_plus_single

        def function(d: Any) -> Any:
            t = slope * d
            k = one / (one + t)
            return factor * log(t), k, -slope * k * k

        return function

    def power(d: float) -> tuple[float, float, float]:
        k = 1.0 / (1.0 + over_a * d)
        value = exponential(-a * log_one_plus(over_a * d))
        return value, -value * k, beyond * value * k * k

    name, source = f"(1 + d/{a:g})", (student_functions, (degrees_of_freedom,))
    return (
        PairFunction.of_precision(logarithm, f"{a:g} log{name}", source=(*source, 0)),
        STUDENT if a == 1.0 else PairFunction(power, f"{name}^-{a:g}", source=(*source, 1)),
    )


@functools.cache
def cross_entropy_functions(a: float, b: float, offset: float) -> Functions:
    """-log phi and -log(1 - phi) for phi = 1/(1 + a s^b), s = offset + d.

    UMAP's kernel is that of a and b, LargeVis' that of a = b = 1; their repulsion is singular
    where points coincide, and an offset, as in UMAP's own gradient, keeps it finite.  With
    b = offset = 1 it is the kernel of Neg-t-SNE.
    """

    def attraction(d: float) -> tuple[float, float, float]:
        s = offset + d
        t = a * exponential(b * log_one_plus(s - 1.0))
        share = b / (s * (1.0 + t))
        return log_one_plus(t), t * share, t * share * (b - 1.0 - t) / (s * (1.0 + t))

    def repulsion(d: float) -> tuple[float, float, float]:
        s = offset + d
        t = a * exponential(b * log_one_plus(s - 1.0))
        slope = b / (s * (1.0 + t))
        return log_one_plus(1.0 / t), -slope, slope * (1.0 + (b + 1.0) * t) / (s * (1.0 + t))

    a_single, offset_single = np.float32(a), np.float32(offset)

    def attraction_single(d: Any) -> Any:
        t = a_single * (offset_single + d)
        slope = a_single / (np.float32(1.0) + t)
        return log_one_plus_single(t), slope, -slope * slope

    source = cross_entropy_functions, (a, b, offset)
    phi = f"1/(1 + {a:g} s^{b:g})"
    return (
        PairFunction(
            attraction,
            f"-log phi, phi = {phi}, s = {offset:g} + d",
            single=attraction_single if b == 1.0 else None,
            source=(*source, 0),
        ),
        PairFunction(
            repulsion,
            f"-log(1 - phi), phi = {phi}, s = {offset:g} + d",
            core_radius=0.5 if offset < SINGULAR_OFFSET else 0.0,
            source=(*source, 1),
        ),
    )


@functools.cache
def pacmap_functions() -> tuple[PairFunction, ...]:
    """PaCMAP's of neighbors, mid-near pairs and further pairs, and LocalMAP's of neighbors.

    s/(10 + s), s/(10,000 + s) and 1/(1 + s), s = 1 + d: Wang, Huang, Rudin and Shaposhnik (2021),
    section 4; u/(10 + s) + arctan(u/sqrt(10))/sqrt(10), u = sqrt(s), of slope 10/(u (10 + s)^2):
    Wang, Sun, Huang and Rudin (2025).
    """

    def share(real: Any, c: float) -> Callable[..., Any]:
        one, c, beyond, twice = real(1.0), real(c), real(c + 1.0), real(-2.0 * c)

        def function(d: Any) -> Any:
            k = one / (beyond + d)
            return (one + d) * k, c * k * k, twice * k * k * k

        return function

    def inverse(real: Any) -> Callable[..., Any]:
        one, two = real(1.0), real(2.0)

        def function(d: Any) -> Any:
            k = one / (two + d)
            return k, -k * k, two * k * k * k

        return function

    def local(real: Any) -> Callable[..., Any]:
        half, one, two, ten, root = (real(n) for n in (0.5, 1.0, 2.0, 10.0, 10.0**-0.5))

        def function(d: Any) -> Any:
            s = one + d
            u, k = np.sqrt(s), one / (ten + s)
            slope = ten * k * k / u
            return u * k + root * np.arctan(root * u), slope, -slope * (two * k + half / s)

        return function

    def made(place: int, body: Callable[..., Any], name: str) -> PairFunction:
        source = pacmap_functions, (), place
        return PairFunction.of_precision(body, f"{name}, s = 1 + d", source=source)

    return (
        made(0, functools.partial(share, c=10.0), "s/(10 + s)"),
        made(1, functools.partial(share, c=10_000.0), "s/(10000 + s)"),
        made(2, inverse, "1/(1 + s)"),
        made(3, local, "sqrt(s)/(10 + s) + arctan(sqrt(s/10))/sqrt(10)"),
    )
