"""Pair functions with parameters: Student kernels of any tails, cross-entropies, PaCMAP's."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from thalweg_embedding.pairs.functions import (
    LOGARITHM,
    STUDENT,
    PairFunction,
    exp_minus,
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
    if degrees_of_freedom == 1.0:
        return LOGARITHM, STUDENT
    a = 0.5 * (degrees_of_freedom + 1.0)
    over_a, beyond = 1.0 / a, 1.0 + 1.0 / a
    a_single, over_a_single = np.float32(a), np.float32(over_a)

    def logarithm(d: float) -> tuple[float, float, float]:
        k = 1.0 / (1.0 + over_a * d)
        return a * log_one_plus(over_a * d), k, -over_a * k * k

    def logarithm_single(d: Any) -> tuple[Any, Any]:
        t = over_a_single * d
        return a_single * log_one_plus_single(t), np.float32(1.0) / (np.float32(1.0) + t)

    def power(d: float) -> tuple[float, float, float]:
        k = 1.0 / (1.0 + over_a * d)
        value = exp_minus(a * log_one_plus(over_a * d))
        return value, -value * k, beyond * value * k * k

    name, source = f"(1 + d/{a:g})", (student_functions, (degrees_of_freedom,))
    return (
        PairFunction(logarithm, f"{a:g} log{name}", single=logarithm_single, source=(*source, 0)),
        PairFunction(power, f"{name}^-{a:g}", source=(*source, 1)),
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
        t = a * exp_minus(-b * log_one_plus(s - 1.0))
        share = b / (s * (1.0 + t))
        return log_one_plus(t), t * share, t * share * (b - 1.0 - t) / (s * (1.0 + t))

    def repulsion(d: float) -> tuple[float, float, float]:
        s = offset + d
        t = a * exp_minus(-b * log_one_plus(s - 1.0))
        slope = b / (s * (1.0 + t))
        return log_one_plus(1.0 / t), -slope, slope * (1.0 + (b + 1.0) * t) / (s * (1.0 + t))

    a_single, offset_single = np.float32(a), np.float32(offset)

    def attraction_single(d: Any) -> tuple[Any, Any]:
        t = a_single * (offset_single + d)
        return log_one_plus_single(t), a_single / (np.float32(1.0) + t)

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
def pacmap_functions() -> tuple[PairFunction, PairFunction, PairFunction]:
    """PaCMAP's of neighbors, mid-near pairs and further pairs, s = 1 + d.

    s/(10 + s), s/(10,000 + s) and 1/(1 + s): Wang, Huang, Rudin and Shaposhnik (2021), section 4.
    """

    def attraction(c: float, place: int) -> PairFunction:
        beyond, twice = c + 1.0, -2.0 * c
        c_single, beyond_single = np.float32(c), np.float32(beyond)

        def function(d: float) -> tuple[float, float, float]:
            k = 1.0 / (beyond + d)
            return (1.0 + d) * k, c * k * k, twice * k * k * k

        def single(d: Any) -> tuple[Any, Any]:
            k = np.float32(1.0) / (beyond_single + d)
            return (np.float32(1.0) + d) * k, c_single * k * k

        source = pacmap_functions, (), place
        return PairFunction(function, f"s/({c:g} + s), s = 1 + d", single=single, source=source)

    def further(d: float) -> tuple[float, float, float]:
        k = 1.0 / (2.0 + d)
        return k, -k * k, 2.0 * k * k * k

    def further_single(d: Any) -> tuple[Any, Any]:
        k = np.float32(1.0) / (np.float32(2.0) + d)
        return k, -k * k

    return (
        attraction(10.0, 0),
        attraction(10_000.0, 1),
        PairFunction(
            further, "1/(1 + s), s = 1 + d", single=further_single, source=(pacmap_functions, (), 2)
        ),
    )
