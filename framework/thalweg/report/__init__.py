"""From results to pictures, tables and measures; drawing is left to one rank."""

from thalweg.report.animation import draw_animation
from thalweg.report.comparison_picture import draw_comparison
from thalweg.report.convergence_picture import draw_convergence
from thalweg.report.embedding_picture import draw_embedding
from thalweg.report.machine import versions
from thalweg.report.map_page import write_map_page
from thalweg.report.quality import (
    CORE_METRICS,
    embedding_quality,
    nearest_rows,
    sampled_rows,
    trustworthiness,
)
from thalweg.report.tables import comparison_rows, format_table, search_seconds

__all__ = [
    "CORE_METRICS", "comparison_rows", "draw_animation", "draw_comparison", "draw_convergence",
    "draw_embedding", "embedding_quality", "format_table", "nearest_rows", "sampled_rows",
    "search_seconds", "trustworthiness", "versions", "write_map_page",
]  # fmt: skip
