"""Options of plugins: declared with type, default, unit and bounds; checked in one place."""

import builtins
import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from thalweg.errors import InputError, suggestion

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
                raise InputError(f"{where} must be {_WORDS[list]}, not {_shown(value)}")
            return [self._checked_entry(entry, where) for entry in value]
        value, fits = _as_type(value, self.type)
        if not fits:
            raise InputError(f"{where} must be {_WORDS[self.type]}, not {_shown(value)}")
        self._check_bounds(value, where)
        if self.choices is not None and value not in self.choices:
            listed = ", ".join(str(choice) for choice in self.choices)
            hint = suggestion(value, map(str, self.choices)) if isinstance(value, str) else ""
            hint = hint if "did you mean" in hint else ""
            raise InputError(f"{where} must be one of {listed}, not {_shown(value)}{hint}")
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
                f"not {_shown(entry)}"
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
                raise InputError(f"{where} must not contain null characters: {_shown(value)}")
            return
        if isinstance(value, float) and math.isnan(value):
            raise InputError(f"{where} must be a number, not NaN")
        if isinstance(value, float) and self.finite and math.isinf(value):
            raise InputError(f"{where} must be finite, not {value!r}")
        if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
            raise InputError(f"{where} must be an integer of 64 bits, not {_shown(value)}")
        bounds = (
            (self.minimum, "at least", lambda v, b: v >= b),
            (self.maximum, "at most", lambda v, b: v <= b),
            (self.above, "greater than", lambda v, b: v > b),
            (self.below, "less than", lambda v, b: v < b),
        )
        for bound, words, holds in bounds:
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


def _shown(value: Any) -> str:
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


def check_parameters(
    estimator: Any, options: Iterable[Option], names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Parameters of a scikit-learn estimator, checked by the options that they set.

    Its parameters ``solver_options`` and ``callback``, where it has them, are checked too.

    Parameters
    ----------
    estimator
        Its parameters are read by ``get_params(deep=False)``, or are its attributes.
    options
        Options of the objective, solver or preconditioner that it builds.
    names
        Option that a parameter sets, where the two are called differently, as in
        ``{"n_components": "dimensions"}``.  A parameter may always have an underscore
        at its end that the option has not, as in ``lambda_``.

    Returns
    -------
    dict
        Checked value of each option that a parameter sets, by the name of the option.

    Raises
    ------
    InputError
        A wrong type, out of bounds, or not among the choices; the sentence names the
        parameter and the estimator.

    Examples
    --------
    >>> class Estimator:
    ...     n_components = 2.5
    >>> option = Option("dimensions", int, 2, "columns of the map", minimum=1)
    >>> check_parameters(Estimator(), [option], {"n_components": "dimensions"})
    Traceback (most recent call last):
        ...
    thalweg.errors.InputError: parameter 'n_components' of Estimator must be an integer, not 2.5
    """
    parameter_of = {option: parameter for parameter, option in (names or {}).items()}
    signature = inspect.signature(type(estimator)).parameters
    checked = {}
    for option in options:
        candidates = (parameter_of.get(option.name, ""), option.name, option.name + "_")
        parameter = next((name for name in candidates if hasattr(estimator, name)), None)
        if parameter is None:
            continue
        value = getattr(estimator, parameter)
        if value is None and parameter in signature and signature[parameter].default is None:
            checked[option.name] = None if option.optional else option.default
            continue
        try:
            owner = type(estimator).__name__
            checked[option.name] = replace(option, name=parameter).check(value, owner)
        except InputError as error:
            raise InputError(str(error).replace("option", "parameter", 1)) from error
    _check_run_parameters(estimator)
    return checked


def _check_run_parameters(estimator: Any) -> None:
    owner = type(estimator).__name__
    options = getattr(estimator, "solver_options", None)
    named = isinstance(options, Mapping) and all(isinstance(name, str) for name in options)
    if options is not None and not named:
        raise InputError(
            f"parameter 'solver_options' of {owner} must be a dictionary, with the names of "
            f"options as keys, not {_shown(options)}"
        )
    callback = getattr(estimator, "callback", None)
    if callback is not None and not callable(callback):
        raise InputError(
            f"parameter 'callback' of {owner} must be a function of one argument, or None, "
            f"not {_shown(callback)}"
        )
