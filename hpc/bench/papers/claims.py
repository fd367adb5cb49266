"""Rows of the page, and the rules by which a verdict follows from figures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

REPRODUCED = "reproduced"
BETTER = "better"
NOT = "not reproduced"
NO_DATA = "data not to be had"
CUT = "not yet run with its budget"

#: Verdicts in the order of the page's table of counts.
VERDICTS = (REPRODUCED, BETTER, NOT, NO_DATA, CUT)

#: The most that rounding of a published figure excuses, however few digits it has.
ROUNDING = 0.05

#: Random starts behind a published mean and deviation.
PUBLISHED_STARTS = 10


@dataclass(frozen=True)
class Claim:
    """One row: where it stands, what was published, what is recorded, and the verdict."""

    place: str
    published: str
    ours: str
    verdict: str
    why: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"no verdict is named {self.verdict!r}")


@dataclass(frozen=True)
class Theorem:
    """A claim of theory and the tests that hold it, as ``path::name`` below ``tests``."""

    place: str
    claim: str
    tests: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Section:
    """Claims that one command with the same settings answers."""

    title: str
    command: str
    settings: str
    claims: list[Claim] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """A source document: what it is, its measured claims and its claims of theory."""

    title: str
    source: str
    sections: list[Section]
    theory: list[Theorem]


def compared(
    ours: float,
    published: str,
    *,
    lower: bool,
    deviation: float | None = None,
    starts: int = PUBLISHED_STARTS,
) -> str:
    """The verdict on one figure.

    Parameters
    ----------
    ours : float
        Recorded.
    published : str
        As printed: its digits say how far it was rounded.
    lower : bool
        Whether lower is better.
    deviation : float, optional
        Published deviation of the ten random starts of which ``published`` is the mean.
        Different are then means beyond two standard errors of their difference.
    starts : int
        Of how many random starts ``ours`` is the mean.

    Returns
    -------
    str
        ``CUT`` where ours is worse by between one and two standard errors of fewer starts than
        were published.
    """
    gain = (float(published) - ours) * (1 if lower else -1)
    rounding = min(ROUNDING, 0.5 * 10.0 ** -len(published.partition(".")[2])) + 1e-9
    error = (deviation or 0.0) * math.sqrt(1 / PUBLISHED_STARTS + 1 / starts)
    if abs(gain) <= max(rounding, error):
        return REPRODUCED
    if abs(gain) <= 2 * error:
        return REPRODUCED if gain > 0 or starts >= PUBLISHED_STARTS else CUT
    return BETTER if gain > 0 else NOT


def together(verdicts: Iterable[str]) -> str:
    """One verdict for several figures: the worst, and ``BETTER`` if none is worse and one is."""
    order = (NOT, CUT, NO_DATA, BETTER, REPRODUCED)
    return min(verdicts, key=order.index)


def whether(holds: bool) -> str:
    """The verdict on a statement that the record confirms or contradicts."""
    return REPRODUCED if holds else NOT


def listed(values: Iterable[object]) -> str:
    """Values after each other."""
    return ", ".join(str(value) for value in values)


def short(value: float) -> str:
    """A figure with three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
