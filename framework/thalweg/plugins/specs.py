"""What a plugin's hooks return: typed descriptions that import nothing heavy.

``load`` names the code as ``"package.module:attribute"``; it is imported when
the plugin is used, not when it is listed.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, ClassVar

from thalweg.plugins.options import Option


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What all plugins have in common.

    Attributes
    ----------
    name
        As users write it.
    summary
        One line for ``thalweg list``.
    load
        ``"package.module:attribute"`` of the code.
    options
        Options that the code takes as keywords.
    """

    name: str
    summary: str
    load: str
    options: tuple[Option, ...] = ()

    kind: ClassVar[str] = "plugin"

    @property
    def owner(self) -> str:
        """How messages name it, for instance ``"objective 't-sne'"``."""
        return f"{self.kind} '{self.name}'"

    def resolve(self) -> Any:
        """Import and return the code that :attr:`load` names."""
        module, _, attribute = self.load.partition(":")
        return getattr(importlib.import_module(module), attribute)


@dataclass(frozen=True, kw_only=True)
class ObjectiveSpec(Spec):
    """An objective; its code is called as ``build(dataset, comm, **options) -> Objective``.

    Attributes
    ----------
    data
        ``"required"``, or ``"none"`` for objectives that take no data set; their
        code is then given ``dataset=None``.
    solver, preconditioner
        Names used when the user gives none.
    """

    kind: ClassVar[str] = "objective"
    data: str = "required"
    solver: str = "lbfgs"
    preconditioner: str = "identity"


@dataclass(frozen=True, kw_only=True)
class PreconditionerSpec(Spec):
    """A preconditioner; its code is called as ``build(**options) -> Preconditioner``."""

    kind: ClassVar[str] = "preconditioner"


@dataclass(frozen=True, kw_only=True)
class SolverSpec(Spec):
    """A solver; its code is called as ``build(**options) -> Solver``.

    A solver with ``preconditioned = True`` is also given ``preconditioner=``.

    Attributes
    ----------
    variant
        Name of the option that the text after a colon fills: with
        ``name="tao", variant="type"`` users may write ``tao:lmvm``.
    """

    kind: ClassVar[str] = "solver"
    variant: str = ""


@dataclass(frozen=True, kw_only=True)
class DataSpec(Spec):
    """A named data set; its code is called as ``load(comm, **options) -> Dataset``."""

    kind: ClassVar[str] = "data set"


@dataclass(frozen=True, kw_only=True)
class MetricSpec(Spec):
    """A metric of a final solution.

    Its code is called, on all ranks, as ``measure(solution, dataset, comm) -> dict``
    with this rank's rows of the solution; it returns an empty dict where it has
    no meaning.
    """

    kind: ClassVar[str] = "metric"


@dataclass(frozen=True, kw_only=True)
class CommandSpec(Spec):
    """A subcommand of ``thalweg``; its code is called as ``main(argv) -> int``."""

    kind: ClassVar[str] = "command"
