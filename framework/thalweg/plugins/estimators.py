"""What scikit-learn's estimators share: docstrings, hints for names, checked parameters."""

import functools
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, TypeVar, dataclass_transform

from thalweg.errors import InputError, suggestion
from thalweg.plugins.options import Option, declared_options, shown_value

C = TypeVar("C", bound=type)


@dataclass_transform(eq_default=False)
def estimator(cls: C) -> C:
    """Make a class an estimator of scikit-learn, whose fields are its parameters.

    It becomes a dataclass that is compared by identity; parameters beyond those of an estimator
    that it derives from are given by name.  Its docstring gets the parameters and attributes of
    the classes that it derives from beside its own and, where it has no example, theirs under its
    name; of parameters that none of them describes, the help of the options that the function
    ``_build`` of the class declares.  Parameters that a tuple ``_first`` of the class names come
    first, in the signature too.  A parameter that it does not have is refused with the sentence
    that a mapping ``_other_names`` holds for it, or with the nearest name.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> @estimator
    ... class Map(BaseEstimator):
    ...     n_components: int = 2
    >>> Map(components=3)
    Traceback (most recent call last):
    ...
    TypeError: Map has no parameter 'components'; did you mean 'n_components'?
    """
    derived = any(is_dataclass(base) for base in cls.__mro__[1:])
    made: Any = dataclass(eq=False, repr=False, kw_only=derived)(cls)
    made.__doc__ = _whole_docstring(made)
    construct = made.__init__
    signature = inspect.signature(construct)
    names = [name for name in signature.parameters if name != "self"]
    hints = getattr(made, "_other_names", {})

    @functools.wraps(construct)
    def __init__(self: Any, *values: Any, **parameters: Any) -> None:
        for name in parameters:
            if name not in names:
                hint = f"; {hints[name]}" if name in hints else suggestion(name, names)
                raise TypeError(f"{type(self).__name__} has no parameter '{name}'{hint}")
        construct(self, *values, **parameters)

    ordered = sorted(
        signature.parameters.values(),
        key=lambda each: _place(made, each.name) if each.kind is each.KEYWORD_ONLY else -1,
    )
    __init__.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
    made.__init__ = __init__
    return made  # type: ignore[no-any-return]


def _place(cls: type, name: str) -> int:
    """Place of a parameter among those of the class."""
    first = getattr(cls, "_first", ())
    return first.index(name) if name in first else len(first)


def _whole_docstring(cls: type) -> str:
    own = _sections(cls)
    sections = {"": own.pop("")}
    for title in ("Parameters", "Attributes"):
        entries: dict[str, str] = {}
        for base in filter(is_dataclass, cls.__mro__):
            for entry in re.split(r"\n(?=\S)", _sections(base).get(title, "").strip()):
                entries.setdefault(re.split(" :|\n", entry)[0], entry)
        if title == "Parameters" and hasattr(cls, "_build"):
            described = ", ".join(entries).split(", ")
            for option in declared_options(cls._build):
                if option.keyword in cls.__dataclass_fields__ and option.keyword not in described:  # type: ignore[attr-defined]
                    entries[option.keyword] = _entry(option)
        first = sorted(entries, key=lambda names: _place(cls, names.split(",")[0]))
        sections[title] = "\n".join(entries[names] for names in first if names)
    examples = (
        _sections(base).get("Examples", "").replace(base.__name__, cls.__name__)
        for base in filter(is_dataclass, cls.__mro__)
    )
    sections |= {title: body for title, body in own.items() if title not in sections}
    sections["Examples"] = next(filter(None, examples), "")
    return "\n\n".join(
        f"{title}\n{'-' * len(title)}\n{body.strip()}" if title else body.strip()
        for title, body in sections.items()
        if body.strip()
    )


def _entry(option: Option) -> str:
    """A parameter by its option."""
    choices = ", ".join(f'``"{choice}"``' for choice in option.choices or ())
    start = f"{choices}: {option.help[:1]}" if choices else option.help[:1].upper()
    text = textwrap.fill(f"{start}{option.help[1:]}.", 92)
    return f"{option.keyword}\n{textwrap.indent(text, '    ')}"


def _sections(cls: type) -> dict[str, str]:
    """Sections of a class's docstring by their titles; what comes before the first under ""."""
    before, *parts = re.split(r"^(\w+)\n-+\n", inspect.getdoc(cls) or "", flags=re.MULTILINE)
    return {"": before, **dict(zip(parts[::2], parts[1::2], strict=True))}


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
    signature, checked = inspect.signature(type(estimator)).parameters, dict[str, Any]()
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
            f"options as keys, not {shown_value(options)}"
        )
    callback = getattr(estimator, "callback", None)
    if callback is not None and not callable(callback):
        raise InputError(
            f"parameter 'callback' of {owner} must be a function of one argument, or None, "
            f"not {shown_value(callback)}"
        )
