"""Objectives with unknowns in closed form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from thalweg.interfaces import Capability
from thalweg.parallel import Array


class Alternation(Capability):
    """Other unknowns, held fixed while x is improved, then updated in closed form.

    KDAC: the embedding U and the degrees D.  A solver keeps them in its state, so that a
    checkpoint holds them: of each this rank's rows, shared out evenly in a run that is resumed
    on another number of ranks.
    """

    phrase = "block of unknowns with a closed form"

    @abstractmethod
    def initial_blocks(self, x: Array) -> dict[str, Array]:
        """The other unknowns to start from.  Collective."""

    @abstractmethod
    def updated_blocks(
        self, x: Array, blocks: Mapping[str, Array]
    ) -> tuple[dict[str, Array], float]:
        """Their optimum at ``x``, and how much they changed: 0 not at all, 1 altogether."""

    @abstractmethod
    def use_blocks(self, blocks: Mapping[str, Array]) -> None:
        """Hold these fixed: values and derivatives are for them from now on."""
