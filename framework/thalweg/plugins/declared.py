"""Options declared where they are used: on the fields of a dataclass, or in a signature.

>>> from dataclasses import dataclass
>>> from typing import Annotated, Literal
>>> @dataclass(frozen=True)
... class Descent:
...     memory: Annotated[int, Help("number of curvature pairs", minimum=1)] = 10
...     scaling: Annotated[Literal["secant", "none"], Help("factor of H0")] = "secant"
>>> [(option.name, option.default, option.choices) for option in declared_options(Descent)]
[('memory', 10, None), ('scaling', 'secant', ('secant', 'none'))]
"""

import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from thalweg.plugins.options import Limits, Option

F = TypeVar("F", bound=Callable[..., Any])


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
    for option in declared_options(type(instance)):
        value = getattr(instance, option.keyword)
        checked = option.check(value, type(instance).__name__)
        checked = tuple(checked) if isinstance(value, tuple) else checked
        object.__setattr__(instance, option.keyword, checked)


def declared_options(code: Callable[..., Any]) -> tuple[Option, ...]:
    """Options that a class or function declares, in the order of its parameters.

    Parameters
    ----------
    code
        A dataclass, another class (its ``__init__`` counts), a function, or a
        ``functools.partial`` of these: what it fixes by position is not an option, what
        it fixes by keyword has another default.  Of a function marked by :func:`with_options`
        what declares them.

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
    return _read(code)


def with_options(*declared: Any, left_out: Sequence[str] = ()) -> Callable[[F], F]:
    """Let dataclasses and functions declare the ``**options`` of a function, but for some."""

    def mark(function: F) -> F:
        vars(function)["declared_by"] = declared, left_out
        return function

    return mark


@functools.cache
def _read(code: Any) -> tuple[Option, ...]:
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
    extras = {f.name: getattr(facts, f.name) for f in dataclasses.fields(Limits)}
    return Option(
        **{**extras, "choices": choices},
        name=name.rstrip("_"),
        type=kind,
        default=default,
        help=facts.text,
        optional=optional,
        entries=entries,
        keyword=name,
    )
