"""Options of plugins: declared with type, default, unit and bounds; checked in one place."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thalweg.errors import InputError, suggestion

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}

#: How a file says None, for options that have another default.
SWITCHED_OFF = "none"


@dataclass(frozen=True)
class Option:
    """One option of a plugin.

    Attributes
    ----------
    name
        As written in a configuration and as the keyword of the constructor.
    type
        ``int``, ``float``, ``bool``, ``str``, or ``list`` for a list of numbers or texts.
    default
        Value when the user gives none; None stands for "chosen by the plugin".
    help
        One line.
    unit
        Unit of a number, empty if it has none.
    minimum, maximum
        Inclusive bounds of a number, and of the entries of a list.
    above, below
        Exclusive bounds.
    choices
        The only values allowed.
    entries
        Type of the entries of a list, ``float`` or ``str``; None takes both.
    optional
        Whether None may be given, as it may where it is the default.  Files, which
        have no null, then write the word ``"none"`` for it.
    """

    name: str
    type: type
    default: Any
    help: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[Any, ...] | None = None
    optional: bool = False
    entries: builtins.type | None = None

    def check(self, value: Any, owner: str) -> Any:
        """``value`` in this option's type.

        Raises
        ------
        InputError
            Wrong type, out of bounds, or not among the choices.
        """
        if value is None and (self.optional or self.default is None):
            return None
        if isinstance(value, str) and value == SWITCHED_OFF and self.can_be_switched_off:
            return None
        where = f"option '{self.name}' of {owner}"
        if self.type is list:
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise InputError(f"{where} must be a list, not {value!r}")
            return [self._checked_entry(entry, where) for entry in value]
        fits = isinstance(value, self.type) and not (
            isinstance(value, bool) and self.type is not bool
        )
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value, fits = float(value), True
        if self.type in (int, float) and not fits and hasattr(value, "item"):
            return self.check(value.item(), owner)  # a NumPy scalar
        if not fits:
            raise InputError(
                f"{where} must be {_WORDS.get(self.type, self.type.__name__)}, not {value!r}"
            )
        self._check_bounds(value, where)
        if self.choices is not None and value not in self.choices:
            listed = ", ".join(str(choice) for choice in self.choices)
            hint = suggestion(value, map(str, self.choices)) if isinstance(value, str) else ""
            hint = hint if "did you mean" in hint else ""
            raise InputError(f"{where} must be one of {listed}, not {value!r}{hint}")
        return value

    def _checked_entry(self, entry: Any, where: str) -> Any:
        bounded = any(b is not None for b in (self.minimum, self.maximum, self.above, self.below))
        number = isinstance(entry, int | float) and not isinstance(entry, bool)
        if (self.entries is float or bounded) and not (number or hasattr(entry, "item")):
            raise InputError(f"{where} must hold numbers, not {entry!r}")
        if self.entries is str and not isinstance(entry, str):
            raise InputError(f"{where} must hold texts, not {entry!r}")
        self._check_bounds(entry, where)
        return float(entry) if self.entries is float else entry

    @property
    def can_be_switched_off(self) -> bool:
        """Whether None is a choice of its own, and so has a word."""
        return self.optional and self.default is not None

    def _check_bounds(self, value: Any, where: str) -> None:
        if isinstance(value, float) and math.isnan(value):
            raise InputError(f"{where} must be a number, not NaN")
        bounds = (
            (self.minimum, "at least", lambda v, b: v >= b),
            (self.maximum, "at most", lambda v, b: v <= b),
            (self.above, "greater than", lambda v, b: v > b),
            (self.below, "less than", lambda v, b: v < b),
        )
        for bound, words, holds in bounds:
            if bound is not None and not holds(value, bound):
                raise InputError(f"{where} must be {words} {bound:g}, not {value!r}")


def resolve_options(
    options: Iterable[Option], given: Mapping[str, Any], owner: str
) -> dict[str, Any]:
    """All options with the user's values checked and defaults filled in.

    Raises
    ------
    InputError
        An unknown option (the nearest are named), a wrong type or range.
    """
    known = {option.name: option for option in options}
    for name in given:
        if name not in known:
            raise InputError(f"{owner} has no option '{name}'{suggestion(name, known)}")
    return {
        name: option.check(given[name], owner) if name in given else option.default
        for name, option in known.items()
    }
