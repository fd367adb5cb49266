"""What tables and pictures of this benchmark share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def save(figure: Any, stem: Path, part: str) -> str:
    """Write a picture; what shows it in Markdown."""
    file = stem.with_name(f"{stem.name}-{part}.png")
    figure.savefig(file, dpi=130, bbox_inches="tight")
    plt.close(figure)
    return f"![{part}]({file.name})"


def spread(values: list[float | None], unknown: str = "-") -> str:
    """Mean and range of what several seeds gave."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return unknown
    mean = f"{sum(known) / len(known):.3g}"
    return mean if len(known) == 1 else f"{mean} ({min(known):.3g} to {max(known):.3g})"
