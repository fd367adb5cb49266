"""Baselines: principal directions, Gaussian random projections, and both together."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import scipy.linalg

from thalweg.engines.secants import SecantSet
from thalweg.parallel import agreed
from thalweg.plugins import Help
from thalweg.result import Status
from thalweg_isometry.active import ActiveSecants
from thalweg_isometry.cutting_planes import Subsets
from thalweg_isometry.near_isometry import over_all
from thalweg_isometry.search import SecantSearch
from thalweg_isometry.search_state import Inner, S, SearchState, Verdict


@dataclass(frozen=True)
class BaselineSearch(SecantSearch[S]):
    """A map for each rank, without any fitting; one complete scan tells its delta."""

    all_below: int = 0

    aim: ClassVar[float] = np.inf  # no secant reaches it: there are no cuts

    @abstractmethod
    def map_of(self, state: S, rank: int) -> np.ndarray:
        """The map of this rank."""

    def inner(self, state: S, active: ActiveSecants) -> tuple[S, Inner]:
        psi = agreed(active.comm, self.map_of(state, state.attempt.rank))
        return state, Inner(psi, True, False, float("nan"), 1)

    def separate(self, state: S) -> tuple[S, Verdict]:
        """Measure the map."""
        if state.progress.before is None:
            state = replace(state, fraction=1.0)
        state, finished = self.scan_part(state, state.psi, np.inf)
        if finished is None:
            return state, "open"
        scan, _ = finished
        wanted = state.problem.wanted_delta
        if wanted is None or scan.delta <= wanted:
            return self.confirm(state, scan), "served"
        return state, "failed"

    def _next_delta(self, state: S) -> S:
        # One map per rank: there is nothing to search.
        return replace(state, outcome=Status.CONVERGED)


@dataclass(frozen=True)
class SecantPCA(BaselineSearch[SearchState]):
    """Solver ``secant-pca``: leading eigenvectors of the sum of ``v v^T`` over all secants."""

    most_points: Annotated[
        int,
        Help("points, evenly spaced, whose secants are used where these are not listed", minimum=2),
    ] = 4000

    def map_of(self, state: SearchState, rank: int) -> np.ndarray:
        """The first ``rank`` eigenvectors, orthonormal; all are found once."""
        made = state.cuts.made
        if "directions" not in made:
            made["directions"] = secant_directions(state.secants, self.most_points)
        return np.array(made["directions"][:rank])


@dataclass(frozen=True)
class RandomProjection(BaselineSearch[SearchState]):
    """Solver ``random-projection``: independent normal entries of variance 1 / rank."""

    def map_of(self, state: SearchState, rank: int) -> np.ndarray:
        random = np.random.default_rng((self.seed, rank))
        return random.standard_normal((rank, state.secants.dimension)) / np.sqrt(rank)


@dataclass(frozen=True)
class Adagio(BaselineSearch[SearchState]):
    """Solver ``adagio``: principal directions, and a Gaussian projection of what they leave."""

    share: Annotated[
        float, Help("share of the rows that are principal directions", above=0, below=1)
    ] = 0.5

    def map_of(self, state: SearchState, rank: int) -> np.ndarray:
        leading = state.secants.directions[: int(np.ceil(self.share * rank))]
        random = np.random.default_rng((self.seed, rank))
        rest = random.standard_normal((rank - len(leading), state.secants.dimension))
        rest = (rest - (rest @ leading.T) @ leading) / np.sqrt(max(1, len(rest)))
        return np.concatenate([leading, rest])


def secant_directions(secants: SecantSet, most_points: int) -> np.ndarray:
    """Eigenvectors of ``sum v v^T``, most important first, as rows.  Collective.

    It is over all listed secants, times their own weights, or those among ``most_points`` points,
    or all where no two of these differ.
    """
    if secants.listed:
        active = ActiveSecants.listed(secants)
        images = active.images(np.eye(secants.dimension))
        matrix = active.adjoint_times(np.ones(len(active.lengths)), images)
    else:
        stride = -(-secants.n_points // most_points)
        matrix = over_all(Subsets(secants, 0)[stride], None, np.ones_like)[1]
    _, vectors = scipy.linalg.eigh(0.5 * (matrix + matrix.T))
    vectors = agreed(secants.comm, vectors)
    return np.ascontiguousarray(vectors[:, ::-1].T)
