"""One line of the report on an installation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes
    ----------
    name, value
        What was looked at, and what was found.
    problem
        What is wrong, empty if nothing is; a sentence.
    advice
        What to do about it.
    broken
        Whether the problem stops thalweg from working, or is only worth knowing.
    """

    name: str
    value: str
    problem: str = ""
    advice: str = ""
    broken: bool = False
