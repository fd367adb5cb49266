"""Secant-avoidance projection: turn an orthogonal projection away from the worst secant.

Of all unit secants v the one that an orthogonal projection P shortens most is sought, and
the direction ``P v / ||P v||`` of its range is replaced by one that leans towards v
(Jamshidi, Kirby and Broomhead 2011; Kvinge, Farnell, Kirby and Peterson 2018).  The other
directions are orthogonal to v and stay.  A projection lengthens nothing: the map that is
returned is multiplied by the number that makes its lengthening and shortening alike.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from thalweg.parallel import agreed, max_over_ranks, min_over_ranks
from thalweg.plugins import Help
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.search import SecantSearch
from thalweg_isometry.search_state import Inner, SearchState

#: Share of the worst secant in the direction that is replaced; chosen by hand.
LEAN = 0.05


@dataclass(frozen=True)
class SecantAvoidance(SecantSearch[SearchState]):
    """Solver ``secant-avoidance``."""

    sweep: Annotated[int, Help("directions replaced per step", minimum=1)] = 50
    limit: Annotated[int, Help("directions replaced per attempt", minimum=1)] = 1000

    weighs: ClassVar[bool] = False  # a projection is scaled as a whole

    def inner(self, state: SearchState, active: ActiveSecants) -> tuple[SearchState, Inner]:
        """Replace directions until the secants at hand are within the target."""
        goal = self.aim * state.attempt.delta
        left = max(1, self.limit - state.attempt.iterations)
        rows = np.linalg.qr(state.psi.T)[0].T
        done, delta = 0, np.inf
        while done < min(self.sweep, left):
            done += 1
            rows = agreed(active.comm, rows)
            ratios = active.ratios(active.images(rows))
            low = min_over_ranks(active.comm, float(ratios.min(initial=1.0)))
            high = max_over_ranks(active.comm, float(ratios.max(initial=1.0)))
            psi, delta = np.sqrt(2.0 / (high + low)) * rows, (high - low) / (high + low)
            state = self.approach(state, psi, delta)
            if delta <= goal:  # as of no secants, which a map of full rank leaves
                break
            holder = int(np.argmin(active.comm.allgather(float(ratios.min(initial=np.inf)))))
            mine = state.cuts.pairs[int(ratios.argmin())] if holder == active.comm.rank else None
            ends = state.secants.rows_of(active.comm.bcast(mine, root=holder))
            rows = avoiding(rows, ends[0] - ends[1])
        failed = delta > goal and state.attempt.iterations + done >= self.limit
        return state, Inner(psi, delta <= goal, failed, delta, done, capped=failed)


def avoiding(rows: np.ndarray, secant: np.ndarray) -> np.ndarray:
    """Orthonormal rows, one of which is turned towards a secant, of any length but 0."""
    secant = secant / np.linalg.norm(secant)
    parts = rows @ secant
    size = float(np.linalg.norm(parts))
    if size > 0.0:
        # A reflection that makes the projected secant the first row.
        sign = 1.0 if parts[0] >= 0.0 else -1.0
        mirror = parts / size
        mirror[0] += sign
        mirror /= np.linalg.norm(mirror)
        rows = rows - 2.0 * np.outer(mirror, mirror @ rows)
        rows[0] *= -sign
    rows = rows.copy()
    rows[0] = (1.0 - LEAN) * rows[0] + LEAN * secant
    return np.asarray(np.linalg.qr(rows.T)[0].T)
