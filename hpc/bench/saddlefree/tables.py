"""What tables of this benchmark share."""

from __future__ import annotations

#: Dots per inch of the pictures beside them.
DPI = 130


def spread(values: list[float | None], unknown: str = "-") -> str:
    """Mean and range of what several seeds gave."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return unknown
    mean = f"{sum(known) / len(known):.3g}"
    return mean if len(known) == 1 else f"{mean} ({min(known):.3g} to {max(known):.3g})"
