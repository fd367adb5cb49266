"""Numerical methods that several families use, on distributed or replicated arrays."""

from typing import TYPE_CHECKING

from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg.numerics.principal import principal_components

__all__ = ["principal_components"]

__getattr__, __dir__ = lazy_names(__name__)
