"""Options of PETSc, given in a configuration as on a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from thalweg.errors import InputError


@contextmanager
def command_line_options(text: str | None) -> Iterator[None]:
    """Set options given as on PETSc's command line, ``"-name value -flag"``, for a block.

    Options of the process's own command line take precedence.
    """
    values: dict[str, str] = {}
    name = None
    try:
        words = shlex.split(text or "")
    except ValueError as error:
        raise InputError(f"PETSc options {text!r} cannot be read: {error}") from error
    for word in words:
        if re.match(r"-[A-Za-z]", word):
            name = word[1:]
            values[name] = ""
        elif name is None or values[name]:
            raise InputError(f"PETSc options {text!r}: '{word}' follows no option's name")
        else:
            values[name] = word
    if not values:
        yield
        return
    from thalweg.parallel import temporary_options

    with temporary_options("", values):
        yield
