"""Options of plugins: declared on fields of a dataclass or in a signature, checked in one place.

>>> from dataclasses import dataclass
>>> from typing import Annotated, Literal
>>> @dataclass(frozen=True)
... class Descent:
...     memory: Annotated[int, Help("number of curvature pairs", minimum=1)] = 10
...     scaling: Annotated[Literal["secant", "none"], Help("factor of H0")] = "secant"
>>> [(option.name, option.default, option.choices) for option in declared_options(Descent)]
[('memory', 10, None), ('scaling', 'secant', ('secant', 'none'))]
"""

import builtins
import dataclasses
import functools
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from thalweg.errors import InputError, suggestion

F = TypeVar("F", bound=Callable[..., Any])

_WORDS = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a string",
    list: "a list",
}
_ENTRIES = {int: "integers", float: "numbers", str: "strings"}

#: Word for None in files, for options that have another default.
SWITCHED_OFF = "none"

#: Integers that the compiled code can hold.
LARGEST_INTEGER = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Values that an option takes, and their description for users."""

    #: Unit of a number, empty if it has none.
    unit: str = ""
    #: Inclusive bounds of a number, and of the entries of a list.
    minimum: float | None = None
    maximum: float | None = None
    #: Exclusive bounds.
    above: float | None = None
    below: float | None = None
    #: The only values allowed.
    choices: tuple[Any, ...] | None = None
    #: Whether infinity is refused, as NaN always is.
    finite: bool = True
    #: Whether it names files, which may lie beside the configuration.
    is_file: bool = False


@dataclass(frozen=True)
class Option(Limits):
    """One option of a plugin; the attributes of :class:`Limits` are keywords of it too.

    Attributes
    ----------
    name
        As written in a configuration and as the keyword of the constructor.
    type
        ``int``, ``float``, ``bool``, ``str``, or ``list`` for a list of numbers or strings.
    default
        Value when the user gives none; None stands for "chosen by the plugin".
    help
        One line.
    entries
        Type of the entries of a list, ``int``, ``float`` or ``str``; None takes all.
    optional
        Whether None may be given, as it may where it is the default.  Files, which
        have no null, then write the word ``"none"`` for it.
    keyword
        The keyword of the constructor, where it is not the name.

    Raises
    ------
    TypeError
        The declaration is not consistent, for instance a default out of bounds.
    """

    name: str
    type: type
    default: Any
    help: str
    optional: bool = field(default=False, kw_only=True)
    entries: builtins.type | None = field(default=None, kw_only=True)
    keyword: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"the name of an option must be a string, not {self.name!r}")
        if not isinstance(self.help, str) or self.type not in _WORDS:
            raise TypeError(
                f"option '{self.name}' must have a type (int, float, bool, str or list), "
                f"a default and a help text"
            )
        if not self.keyword:
            object.__setattr__(self, "keyword", self.name)
        if self.default is not None:
            try:
                self.check(self.default, "its declaration")
            except InputError as error:
                raise TypeError(f"the default does not fit: {error}") from error

    def check(self, value: Any, owner: str) -> Any:
        """``value`` in this option's type.

        Raises
        ------
        InputError
            Wrong type, out of bounds, or not among the choices.
        """
        if value is None and (self.optional or self.default is None):
            return None
        has_none = self.can_be_switched_off or (self.default is None and self.type is not str)
        if isinstance(value, str) and value == SWITCHED_OFF and has_none:
            return None
        where = f"option '{self.name}' of {owner}"
        value = _plain(value)
        if self.type is list:
            if not isinstance(value, Sequence) or isinstance(value, str | bytes):
                raise InputError(f"{where} must be {_WORDS[list]}, not {shown_value(value)}")
            return [self._checked_entry(entry, where) for entry in value]
        value, fits = _as_type(value, self.type)
        if not fits:
            raise InputError(f"{where} must be {_WORDS[self.type]}, not {shown_value(value)}")
        self._check_bounds(value, where)
        if self.choices is not None and value not in self.choices:
            listed = ", ".join(str(choice) for choice in self.choices)
            hint = suggestion(value, map(str, self.choices)) if isinstance(value, str) else ""
            hint = hint if "did you mean" in hint else ""
            raise InputError(f"{where} must be one of {listed}, not {shown_value(value)}{hint}")
        return value

    def _checked_entry(self, entry: Any, where: str) -> Any:
        entry = _plain(entry)
        bounded = any(b is not None for b in (self.minimum, self.maximum, self.above, self.below))
        kind = self.entries
        if kind is None and (bounded or isinstance(entry, int | float)):
            # Integers stay integers in a list of numbers.
            kind = int if isinstance(entry, int) and not isinstance(entry, bool) else float
        entry, fits = _as_type(entry, kind or str)
        if not fits:
            raise InputError(
                f"{where} must hold {_ENTRIES[self.entries or (float if bounded else str)]}, "
                f"not {shown_value(entry)}"
            )
        self._check_bounds(entry, where)
        return entry

    @property
    def type_name(self) -> str:
        """The type in words, without an article."""
        words = _WORDS[self.type].removeprefix("an ").removeprefix("a ")
        if self.entries is not None:
            words += f" of {_ENTRIES[self.entries]}"
        return f"{words} or {SWITCHED_OFF}" if self.can_be_switched_off else words

    @property
    def can_be_switched_off(self) -> bool:
        """Whether None is a choice of its own, and so has a word."""
        return self.optional and self.default is not None

    def _check_bounds(self, value: Any, where: str) -> None:
        if isinstance(value, str):
            if "\0" in value:
                raise InputError(f"{where} must not contain null characters: {shown_value(value)}")
            return
        if isinstance(value, float) and math.isnan(value):
            raise InputError(f"{where} must be a number, not NaN")
        if isinstance(value, float) and self.finite and math.isinf(value):
            raise InputError(f"{where} must be finite, not {value!r}")
        if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
            raise InputError(f"{where} must be an integer of 64 bits, not {shown_value(value)}")
        for bound, words, holds in (
            (self.minimum, "at least", lambda v, b: v >= b),
            (self.maximum, "at most", lambda v, b: v <= b),
            (self.above, "greater than", lambda v, b: v > b),
            (self.below, "less than", lambda v, b: v < b),
        ):
            if bound is not None and not holds(value, bound):
                raise InputError(f"{where} must be {words} {bound:g}, not {value!r}")


def _plain(value: Any) -> Any:
    """A NumPy scalar or an array without axes as Python's own number."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def _as_type(value: Any, kind: type) -> tuple[Any, bool]:
    """The value as this kind where nothing is lost by it, and whether it fits."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value), True
        except OverflowError:
            return value, False
    return value, isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def shown_value(value: Any) -> str:
    """A value within a sentence: on one line, and not too long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python refuses to print integers of thousands of digits
        text = "an integer of thousands of digits"
    return text if len(text) <= 80 else f"{text[:60]}… ({type(value).__name__})"


def resolve_options(
    options: Iterable[Option], given: Mapping[str, Any], owner: str, others: Iterable[str] = ()
) -> dict[str, Any]:
    """All options with the user's values checked and defaults filled in.

    ``others`` are names beside them that a misspelled one may mean.

    Raises
    ------
    InputError
        An unknown option (the nearest are named), a wrong type or range.
    """
    known = {option.name: option for option in options}
    for name in given:
        if name not in known:
            raise unknown_option(str(name), (*known, *others), owner)
    return {
        name: option.check(given[name], owner) if name in given else option.default
        for name, option in known.items()
    }


def unknown_option(name: str, known: Iterable[str], owner: str) -> InputError:
    """The error for an option that does not exist, with the nearest that does."""
    return InputError(f"{owner} has no option '{name}'{suggestion(name, known)}")


@dataclass(frozen=True)
class Help(Limits):
    """Metadata in ``Annotated`` that makes a parameter an option.

    The name, the type, the choices of a ``Literal``, the default, and whether None may
    be given (``float | None``) are those of the parameter.  A name that ends in an
    underscore, as ``lambda_``, gives the option without it.

    Attributes
    ----------
    text
        One line.
    """

    text: str


def check_declared(instance: Any) -> None:
    """Check the fields of a dataclass by the options that it declares.

    Meant for ``__post_init__``, so that objects made in Python are held to what
    configurations are held to.

    Raises
    ------
    InputError
        A wrong type, out of bounds, or not among the choices.
    """
    kind: Any = type(instance)
    for option in declared_options(kind):
        value = getattr(instance, option.keyword)
        checked = option.check(value, kind.__name__)
        checked = tuple(checked) if isinstance(value, tuple) else checked
        object.__setattr__(instance, option.keyword, checked)


@functools.cache
def declared_options(code: Callable[..., Any]) -> tuple[Option, ...]:
    """Options that a class or function declares, in the order of its parameters.

    Parameters
    ----------
    code
        A dataclass, another class (its ``__init__`` counts), a function, or a ``functools.partial``
        of these: what it fixes by position is not an option, what it fixes by keyword has another
        default.  Of a function marked by :func:`with_options` what declares them.

    Returns
    -------
    tuple of Option
        One for each parameter whose annotation holds a :class:`Help`; a subclass that
        changes a field's default keeps the help of its base.

    Raises
    ------
    TypeError
        An option without a default, or of a type that no option can have.
    """
    changed: dict[str, Any] = {}
    while isinstance(code, functools.partial):
        changed = {**code.keywords, **changed}
        code = code.func
    sources, left_out = getattr(code, "declared_by", ((code,), ()))
    options = []
    for source in sources:
        parameters = inspect.signature(source).parameters
        for name, hint in _annotations(source).items():
            if name in left_out or name not in parameters:  # a field that is not a parameter
                continue
            default = changed.get(name, parameters[name].default)
            if default is inspect.Parameter.empty:
                raise TypeError(f"option '{name}' of {source.__qualname__} needs a default")
            options.append(_option(name, hint, default))
    return tuple(options)


def with_options(*declared: Any, left_out: Sequence[str] = ()) -> Callable[[F], F]:
    """Let dataclasses and functions declare the ``**options`` of a function, but for some."""

    def mark(function: F) -> F:
        vars(function)["declared_by"] = declared, left_out
        return function

    return mark


def _annotations(code: Callable[..., Any]) -> dict[str, Any]:
    """Annotations that hold a Help, by the name of the parameter."""
    if dataclasses.is_dataclass(code):
        sources: list[Any] = list(reversed(code.__mro__))  # type: ignore[union-attr]
    else:
        sources = [code.__init__ if isinstance(code, type) else code]  # type: ignore[misc]
    annotations: dict[str, Any] = {}
    for source in sources:
        if not isinstance(source, type | types.FunctionType):
            continue  # object's own __init__, or a callable of compiled code
        names = vars(sys.modules[source.__module__])
        for name, annotation in inspect.get_annotations(source).items():
            if isinstance(annotation, str):
                # Only these: others may name what is imported for the type checker alone.
                if "Annotated" not in annotation and annotation not in names:
                    continue
                annotation = eval(annotation, dict(names))
            if any(isinstance(extra, Help) for extra in getattr(annotation, "__metadata__", ())):
                annotations[name] = annotation
    return annotations


def _option(name: str, hint: Any, default: Any) -> Option:
    facts = next(extra for extra in hint.__metadata__ if isinstance(extra, Help))
    kind, optional = hint.__origin__, False
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        others = [part for part in typing.get_args(kind) if part is not type(None)]
        if len(others) == 1:
            kind, optional = others[0], True
    choices, entries = facts.choices, None
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        choices = typing.get_args(kind)
        kind = type(choices[0])
    elif isinstance(origin, type) and issubclass(origin, Sequence):
        entries = next((e for e in typing.get_args(kind) if e is not Ellipsis), None)
        kind = list
    facets = {f.name: getattr(facts, f.name) for f in dataclasses.fields(Limits)}
    facets |= {"choices": choices, "optional": optional, "entries": entries, "keyword": name}
    return Option(name.rstrip("_"), kind, default, facts.text, **facets)
