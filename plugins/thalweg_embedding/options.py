"""Options of several objectives, declared once."""

from __future__ import annotations

from typing import Annotated

from thalweg.plugins import Help

Dimensions = Annotated[int, Help("dimensions of the map", minimum=1)]
Perplexity = Annotated[
    float | None,
    Help("effective number of neighbors of a point; 30, or fewer for small data", above=1),
]
