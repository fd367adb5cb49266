"""Early exaggeration: the stages of lambda that a run passes through."""

from __future__ import annotations

import math

from thalweg_embedding import defaults
from thalweg_embedding.families import Family


def exaggerated_stages(
    family: Family, rows: int, exaggeration: float | None, unfold_first: bool = False
) -> tuple[float, ...]:
    """Factors of lambda from 1/exaggeration to 1.

    Up to 15,000 points each is at most three times the one before until 1/2, then come 0.6, 0.7,
    0.8, 0.9 and 1: for 12, 1/12, 1/4.9, 1/2 and those.  Near 1 a map grows most, and its
    neighborhoods order themselves if it grows slowly.  Maps of more points gain nothing by that,
    and have factors at most twice the one before: 1/12, 1/6.45, 1/3.46, 1/1.86 and 1.

    None asks for 12 where E- is a logarithm and the points are many, else for no stages: small
    maps, and those of the elastic embedding, unfold as well without.  ``unfold_first``: stages
    are wanted in any case.
    """
    if exaggeration is None:
        staged = unfold_first or (family.staged and rows >= defaults.MANY_ROWS)
        exaggeration = defaults.EXAGGERATION if staged else 1.0
    first = 1.0 / exaggeration
    few = rows <= defaults.ROWS_PER_STEP
    ratio = 3.0 if few else 2.0
    late = tuple(factor for factor in (defaults.LATE_STAGES if few else (1.0,)) if factor > first)
    if not late:
        return ()
    count = max(1, math.ceil(math.log(late[0] / first, ratio) - 1e-9))
    return (*(first * (late[0] / first) ** (i / count) for i in range(count)), *late)
