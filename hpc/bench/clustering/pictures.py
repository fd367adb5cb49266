"""Pictures of the clustering benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def save(figure: Any, stem: Path, part: str) -> str:
    """Write ``stem``-``part``.png and return the Markdown that shows it."""
    file = stem.with_name(f"{stem.name}-{part}.png")
    figure.savefig(file, dpi=110, bbox_inches="tight")
    plt.close(figure)
    return f"![{part}]({file.name})"
