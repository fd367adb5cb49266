"""The match between what an objective offers and what others need."""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.errors import CapabilityError
from thalweg.interfaces.capabilities import Capability
from thalweg.interfaces.objective import Objective


def missing_capabilities(
    objective: Objective, requires: Iterable[type[Capability]]
) -> list[type[Capability]]:
    """Those of ``requires`` that the objective does not have."""
    return [needed for needed in requires if not isinstance(objective, needed)]


def require(
    objective: Objective,
    requires: Iterable[type[Capability]],
    what: str,
    fitting: Iterable[str] = (),
) -> None:
    """Refuse, in one sentence, an objective that lacks a capability.

    Parameters
    ----------
    what
        Who asks, for instance ``"preconditioner 'spectral'"``.
    fitting
        Names of what would fit this objective instead.

    Raises
    ------
    CapabilityError
    """
    missing = missing_capabilities(objective, requires)
    if not missing:
        return
    needs = " and ".join(f"a {needed.phrase}" for needed in missing)
    text = f"{what} needs {needs}, which {type(objective).__name__} does not offer"
    names = sorted(fitting)
    if names:
        text += "; these would fit: " + ", ".join(names)
    raise CapabilityError(text)
