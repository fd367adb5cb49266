"""Test functions by name, as the plugin offers them."""

from __future__ import annotations

from typing import Annotated

from thalweg.data import Dataset
from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.plugins import Help
from thalweg_saddlefree.functions.objective import FunctionObjective, LeastSquaresObjective
from thalweg_saddlefree.functions.saddles import (
    GinzburgLandau,
    Himmelblau,
    MonkeySaddle,
    StyblinskiTang,
)
from thalweg_saddlefree.functions.valleys import BroydenTridiagonal, PowellSingular, Rosenbrock

Spread = Annotated[float, Help("standard deviation of a random shift of the start", minimum=0.0)]
Size = Annotated[int, Help("number of variables", minimum=1)]
SizeFrom2 = Annotated[int, Help("number of variables", minimum=2)]
SizeFrom4 = Annotated[int, Help("number of variables", minimum=4)]


def build_rosenbrock(
    dataset: Dataset | None, comm: MPI.Comm, *, size: SizeFrom2 = 2, spread: Spread = 0.0
) -> LeastSquaresObjective:
    """Objective ``rosenbrock``."""
    if size < 2:
        raise InputError(f"rosenbrock needs a size of at least 2, not {size}")
    return LeastSquaresObjective(comm, Rosenbrock(size), spread)


def build_powell_singular(
    dataset: Dataset | None, comm: MPI.Comm, *, size: SizeFrom4 = 4, spread: Spread = 0.0
) -> LeastSquaresObjective:
    """Objective ``powell-singular``."""
    if size < 4 or size % 4:
        raise InputError(f"powell-singular needs a size that is a multiple of 4, not {size}")
    return LeastSquaresObjective(comm, PowellSingular(size), spread)


def build_broyden_tridiagonal(
    dataset: Dataset | None, comm: MPI.Comm, *, size: Size = 100, spread: Spread = 0.0
) -> LeastSquaresObjective:
    """Objective ``broyden-tridiagonal``."""
    return LeastSquaresObjective(comm, BroydenTridiagonal(size), spread)


def build_monkey_saddle(
    dataset: Dataset | None, comm: MPI.Comm, *, spread: Spread = 0.0
) -> FunctionObjective:
    """Objective ``monkey-saddle``."""
    return FunctionObjective(comm, MonkeySaddle(2), spread)


def build_styblinski_tang(
    dataset: Dataset | None, comm: MPI.Comm, *, size: Size = 20, spread: Spread = 0.0
) -> FunctionObjective:
    """Objective ``styblinski-tang``."""
    return FunctionObjective(comm, StyblinskiTang(size), spread)


def build_ginzburg_landau(
    dataset: Dataset | None, comm: MPI.Comm, *, size: Size = 100, spread: Spread = 0.0
) -> FunctionObjective:
    """Objective ``ginzburg-landau``."""
    return FunctionObjective(comm, GinzburgLandau(size), spread)


def build_himmelblau(
    dataset: Dataset | None, comm: MPI.Comm, *, spread: Spread = 0.0
) -> FunctionObjective:
    """Objective ``himmelblau``."""
    return FunctionObjective(comm, Himmelblau(2), spread)
