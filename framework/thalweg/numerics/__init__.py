"""Numerical methods that several families use, on distributed or replicated arrays."""

from typing import TYPE_CHECKING

from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg.numerics.descent import backtrack, conjugate_gradients, parabola_ratio, two_loop
    from thalweg.numerics.distances import squared_distance, squared_distances, unit_rows
    from thalweg.numerics.exp_polynomial import exponential
    from thalweg.numerics.k_means import lloyd
    from thalweg.numerics.principal import decomposed_size, inner_products, principal_components

__all__ = [
    "backtrack", "conjugate_gradients", "decomposed_size", "exponential", "inner_products", "lloyd",
    "parabola_ratio", "principal_components", "squared_distance", "squared_distances", "two_loop",
    "unit_rows",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
