"""What an objective can do beyond value and gradient, and the check that requirements are met.

Each capability is a small abstract class.  Preconditioners and solvers name
those they need in ``requires``; the match is checked before any work is done.
"""

from abc import ABC
from collections.abc import Iterable
from typing import Any

from thalweg.errors import CapabilityError, with_article


class Capability(ABC):
    """Base of all capabilities; ``phrase`` completes "this objective has no ..."."""

    phrase: str

    @classmethod
    def check(cls, objective: Any, x: Any) -> None:
        """Check at ``x`` that the objective keeps what the capability promises.  Collective.

        :func:`thalweg.testing.check_capabilities` calls this of every capability that overrides it.

        Raises
        ------
        AssertionError
            One sentence that says what is wrong.
        """

    @classmethod
    def described(cls) -> str:
        """:attr:`phrase` with its article."""
        return with_article(cls.phrase)


def missing_capabilities(
    objective: object, requires: Iterable[type[Capability]]
) -> list[type[Capability]]:
    """Those of ``requires`` that the objective does not have."""
    return [needed for needed in requires if not isinstance(objective, needed)]


def require(
    objective: object, requires: Iterable[type[Capability]], what: str, fitting: Iterable[str] = ()
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
    needs = " and ".join(needed.described() for needed in missing)
    label = getattr(objective, "label", None)
    owner = type(objective).__name__ if label is None else f"objective '{label}'"
    text = f"{what} needs {needs}, which {owner} does not offer"
    names = sorted(fitting)
    if names:
        text += "; these would fit: " + ", ".join(names)
    raise CapabilityError(text)
