"""Test functions by name, as the plugin offers them."""

import functools
from typing import Annotated

from thalweg.data import Dataset
from thalweg.parallel import MPI
from thalweg.plugins import Help
from thalweg_saddlefree.functions.objective import (
    Function,
    FunctionObjective,
    LeastSquares,
    LeastSquaresObjective,
)
from thalweg_saddlefree.functions.saddles import (
    GinzburgLandau,
    Himmelblau,
    MonkeySaddle,
    StyblinskiTang,
)
from thalweg_saddlefree.functions.valleys import BroydenTridiagonal, PowellSingular, Rosenbrock

Spread = Annotated[float, Help("standard deviation of a random shift of the start", minimum=0.0)]


def _of_any_size(
    function: type[Function],
    dataset: Dataset | None,
    comm: MPI.Comm,
    *,
    size: Annotated[int, Help("number of variables", minimum=1)] = 100,
    spread: Spread = 0.0,
) -> FunctionObjective:
    """Objective of a function of any number of variables."""
    if issubclass(function, LeastSquares):
        return LeastSquaresObjective(comm, function(size), spread)
    return FunctionObjective(comm, function(size), spread)


def _of_two(
    function: type[Function], dataset: Dataset | None, comm: MPI.Comm, *, spread: Spread = 0.0
) -> FunctionObjective:
    """Objective of a function of two variables."""
    return FunctionObjective(comm, function(2), spread)


build_rosenbrock = functools.partial(_of_any_size, Rosenbrock, size=2)
build_powell_singular = functools.partial(_of_any_size, PowellSingular, size=4)
build_broyden_tridiagonal = functools.partial(_of_any_size, BroydenTridiagonal)
build_styblinski_tang = functools.partial(_of_any_size, StyblinskiTang, size=20)
build_ginzburg_landau = functools.partial(_of_any_size, GinzburgLandau)
build_monkey_saddle = functools.partial(_of_two, MonkeySaddle)
build_himmelblau = functools.partial(_of_two, Himmelblau)
