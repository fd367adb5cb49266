"""Pictures beside the reports of the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def save_picture(figure: Any, stem: Path, part: str, dpi: int = 110) -> str:
    """Write ``stem``-``part``.png and return the Markdown that shows it."""
    file = stem.with_name(f"{stem.name}-{part}.png")
    figure.savefig(file, dpi=dpi, bbox_inches="tight")
    plt.close(figure)
    return f"![{part}]({file.name})"
