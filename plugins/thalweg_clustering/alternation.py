"""Objectives with unknowns in closed form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from thalweg.interfaces import Capability
from thalweg.parallel import Vector


class Alternation(Capability):
    """Other unknowns, held fixed while x is improved, then updated in closed form.

    KDAC: the embedding U and the degrees D.  A solver keeps them in its state, so that a
    checkpoint holds them: vectors, of which each rank has its rows, or arrays that are equal
    on all ranks.
    """

    phrase = "block of unknowns with a closed form"

    @abstractmethod
    def initial_blocks(self, x: Vector) -> dict[str, Any]:
        """The other unknowns to start from.  Collective."""

    @abstractmethod
    def updated_blocks(self, x: Vector, blocks: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """Their optimum at ``x``, and how much they changed: 0 not at all, 1 altogether."""

    @abstractmethod
    def use_blocks(self, blocks: Mapping[str, Any]) -> None:
        """Hold these fixed: values and derivatives are for them from now on."""
