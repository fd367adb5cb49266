"""Specs, which the hooks of plugins return: typed descriptions that import nothing heavy.

``load`` names the code as ``"package.module:attribute"``; it is imported when
the plugin is used or its options are asked for, not when it is listed.
"""

import argparse
import functools
import importlib
import importlib.resources
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from thalweg.errors import InputError, PluginError, printable, reason
from thalweg.plugins.options import Option, declared_options

#: Bytes of a process that has imported its modules, as measured on one machine; estimates add
#: their compiled kernels.
PROCESS_BYTES = 172e6


@dataclass(frozen=True)
class Problem:
    """A configured run on a number of ranks, known by its shapes alone.

    Attributes
    ----------
    rows, columns
        Shape of the data; 0 without data.
    ranks
        Number of ranks.
    objective, solver, preconditioner
        Sections of the configuration, with every option.
    read_columns
        Columns that are read, of which ``[data] components`` makes ``columns``; else 0.
    root_bytes
        Bytes of a file that rank 0 reads whole for all; else 0.
    """

    rows: int
    columns: int
    ranks: int
    objective: Mapping[str, Any] = field(default_factory=dict)
    solver: Mapping[str, Any] = field(default_factory=dict)
    preconditioner: Mapping[str, Any] = field(default_factory=dict)
    read_columns: int = 0
    root_bytes: int = 0

    @property
    def local_rows(self) -> float:
        """Rows of the rank that holds most."""
        return float(-(-self.rows // self.ranks))


@dataclass(frozen=True)
class PhaseEstimate:
    """Memory of a phase of a run, on the rank that needs most.

    Attributes
    ----------
    name
        Name of the phase.
    persistent
        Bytes that stay in memory until the run's end.
    temporary
        Further bytes while the phase lasts.
    advice
        Advice where the phase does not fit into memory.
    """

    name: str
    persistent: float = 0.0
    temporary: float = 0.0
    advice: str = "use more ranks or fewer rows"


def peaks(phases: Sequence[PhaseEstimate]) -> list[float]:
    """Peak bytes of each phase on the rank that needs most, the process itself included."""
    totals, persistent = [], PROCESS_BYTES
    for phase in phases:
        persistent += phase.persistent
        totals.append(persistent + phase.temporary)
    return totals


_CODE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

#: An entry begins a line with @ and ends with a line of one brace.
_ENTRY = re.compile(r"^@\w+\{.*?^\}$", re.MULTILINE | re.DOTALL)
_KEYWORDS = re.compile(r"^\s*keywords\s*=\s*\{([^}]*)\},?\n", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Provider:
    """One entry point: what it is called, and the distribution it comes from."""

    name: str
    distribution: str
    version: str
    error: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} (entry point '{self.name}')"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Base of all specs.

    Attributes
    ----------
    name
        As users write it.
    summary
        One line for ``thalweg list``.
    load
        ``"package.module:attribute"`` of the code.
    options
        Options that the code takes as keywords; by default those that the code itself
        declares by :class:`~thalweg.plugins.Help`.
    aliases
        Other names under which ``thalweg list`` finds it, such as an estimator's.
    variant
        Name of the option that the string after a colon fills: with
        ``name="tao", variant="type"`` users may write ``tao:lmvm``.

    Raises
    ------
    TypeError
        A field of another type than declared.
    """

    name: str
    summary: str
    load: str
    options: tuple[Option, ...] | None = None
    aliases: tuple[str, ...] = ()
    variant: str = ""

    #: The distribution that provides it; set by the manager.
    provider: Provider | None = field(default=None, init=False, compare=False, repr=False)

    #: Its word in messages, and the name of the hook that returns a list of these.
    kind: ClassVar[str]
    hook: ClassVar[str]

    def __init_subclass__(cls, kind: str, hook: str) -> None:
        cls.kind, cls.hook = kind, hook

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"the name of a {self.kind} must be a string, not {self.name!r}")
        if not isinstance(self.summary, str):
            raise TypeError(f"the summary of {self.owner} must be a string, not {self.summary!r}")
        if printable(self.name + self.summary) != self.name + self.summary:
            raise TypeError(f"{self.owner} has control characters in its name or summary")
        expected, value = "'package.module:attribute'", self.load
        if not isinstance(value, str) or not _CODE.fullmatch(value):
            raise TypeError(f"'load' of {self.owner} must be {expected}, not {value!r}")
        for name, kind in (("options", Option), ("aliases", str)):
            value, expected = getattr(self, name), f"a tuple of {kind.__name__}"
            fits = isinstance(value, tuple) and all(isinstance(entry, kind) for entry in value)
            if value is not None and not fits:
                raise TypeError(f"'{name}' of {self.owner} must be {expected}, not {value!r}")

    @property
    def owner(self) -> str:
        """Its name in messages, for instance ``"objective 't-sne'"``."""
        return f"{self.kind} '{self.name}'"

    @property
    def origin(self) -> str:
        """Its name with its provider, for messages on what fails in its code."""
        return self.owner if self.provider is None else f"{self.owner} of {self.provider}"

    @property
    def shown_name(self) -> str:
        """The name as users write it, for instance ``"tao:TYPE"``."""
        return f"{self.name}:{self.variant.upper()}" if self.variant else self.name

    def resolve(self, code: str = "") -> Any:
        """Import and return the code that :attr:`load` names, or another attribute of the spec.

        Raises
        ------
        PluginError
            The code cannot be imported, or has no such attribute.
        """
        code = code or self.load
        module, _, attribute = code.partition(":")
        try:
            return functools.reduce(getattr, attribute.split("."), importlib.import_module(module))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            text = f"{self.origin} cannot be loaded from '{code}': {reason(error)}"
            raise PluginError(text) from error

    @functools.cached_property
    def declared_options(self) -> tuple[Option, ...]:
        """The options, of the spec or else of the code, which is imported for them.

        Raises
        ------
        PluginError
            The code cannot be imported, or declares what no option can be.
        """
        if self.options is not None:
            return self.options
        code, what = self.resolve(), f"the options of {self.origin} in '{self.load}'"
        try:
            return declared_options(code)
        except Exception as error:
            raise PluginError(f"{what} cannot be read: {error}") from error

    def build(self, *arguments: Any, options: Mapping[str, Any], **others: Any) -> Any:
        """Call the code with options, which are under the names of a configuration."""
        keywords = {option.name: option.keyword for option in self.declared_options}
        by_keyword = {keywords.get(name, name): value for name, value in options.items()}
        return self.resolve()(*arguments, **by_keyword, **others)


@dataclass(frozen=True, kw_only=True)
class ObjectiveSpec(Spec, kind="objective", hook="thalweg_objectives"):
    """An objective; its code is called as ``build(dataset, comm, **options) -> Objective``.

    Attributes
    ----------
    data
        ``"required"``, or ``"none"`` for objectives that take no data set; their
        code is then given ``dataset=None``.
    solver, preconditioner
        Names used when the user gives none.
    stop
        Stopping rules that hold where the user gives none of their names.
    estimate
        ``"package.module:function"``, called by ``thalweg plan`` as
        ``estimate(problem) -> list[PhaseEstimate]``; empty where there is none.
    """

    data: str = "required"
    solver: str = "lbfgs"
    preconditioner: str = "identity"
    stop: Mapping[str, Any] = field(default_factory=dict)
    estimate: str = ""

    def build(self, *arguments: Any, options: Mapping[str, Any], **others: Any) -> Any:
        """Call the code with options; the objective keeps the name in its ``label``."""
        objective = super().build(*arguments, options=options, **others)
        if getattr(objective, "label", None) is None:
            objective.label = self.name
        return objective


@dataclass(frozen=True, kw_only=True)
class PreconditionerSpec(Spec, kind="preconditioner", hook="thalweg_preconditioners"):
    """A preconditioner; its code is called as ``build(**options) -> Preconditioner``."""


@dataclass(frozen=True, kw_only=True)
class SolverSpec(Spec, kind="solver", hook="thalweg_solvers"):
    """A solver; its code is called as ``build(**options) -> Solver``.

    A solver with ``preconditioned = True`` is also given ``preconditioner=``.
    """


@dataclass(frozen=True, kw_only=True)
class DataSpec(Spec, kind="data set", hook="thalweg_data"):
    """A named data set; its code is called as ``load(comm, **options) -> Dataset``."""


@dataclass(frozen=True, kw_only=True)
class FormatSpec(Spec, kind="format", hook="thalweg_formats"):
    """A file format of data; its code is called on rank 0 as ``read(path, options) -> Source``.

    ``options`` has the options of the section ``[data]``, those of the format included.
    """

    #: Regular expression that the lower-case file name ends with, such as ``r"\.mtx"``.
    pattern: str

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            re.compile(self.pattern)
        except (re.error, TypeError) as error:
            raise TypeError(f"'pattern' of {self.owner} must be a regular expression") from error


@dataclass(frozen=True, kw_only=True)
class MetricSpec(Spec, kind="metric", hook="thalweg_metrics"):
    """A metric of a final solution.

    Its code is called, on all ranks, as ``measure(solution, dataset, comm) -> dict`` with this
    rank's rows of the solution; it returns an empty dict where it has no meaning.
    """

    #: ``"required"``, or ``"optional"`` for metrics of runs without a data set too; their code is
    #: then given ``dataset=None``.
    data: str = "optional"

    #: Whether a run gives it what was minimized too, as ``objective``, which is None by default.
    objective: bool = False


@dataclass(frozen=True, kw_only=True)
class CommandSpec(Spec, kind="command", hook="thalweg_commands"):
    """A subcommand of ``thalweg``; its code is called as ``main(argv) -> int``."""


#: All kinds of plugins.
KINDS: tuple[type[Spec], ...] = (
    ObjectiveSpec, PreconditionerSpec, SolverSpec, DataSpec, FormatSpec, MetricSpec, CommandSpec,
)  # fmt: skip


class CommandParser(argparse.ArgumentParser):
    """Parser for the arguments of a subcommand: wrong ones are an error like all bad input."""

    def error(self, message: str) -> NoReturn:
        """Raise the message as an :class:`~thalweg.errors.InputError`."""
        raise InputError(f"{message}; see {self.prog} --help")


def citation(specs: Iterable[Spec]) -> str:
    """BibTeX entries for thalweg and for the methods of these plugins, each once.

    A package that provides plugins may hold a file ``references.bib``; the field ``keywords`` of an
    entry lists the names of the plugins whose method it describes.

    Parameters
    ----------
    specs
        The objective, preconditioner and solver of a run.
    """
    names = [("thalweg", "thalweg")]
    names += [(spec.load.partition(":")[0].partition(".")[0], spec.name) for spec in specs]
    entries = [entry for package, name in names for entry in _entries(package, name)]
    return "\n\n".join(dict.fromkeys(entries)) + "\n"


def _entries(package: str, name: str) -> list[str]:
    try:
        text = (importlib.resources.files(package) / "references.bib").read_text(encoding="utf-8")
    except (OSError, ImportError, UnicodeDecodeError, TypeError):  # TypeError: a module, no package
        return []
    entries = []
    for entry in _ENTRY.findall(text):
        names = _KEYWORDS.search(entry)
        if names is not None and name in re.split(r"\s*,\s*", names[1].strip()):
            entries.append(_KEYWORDS.sub("", entry))
    return entries
