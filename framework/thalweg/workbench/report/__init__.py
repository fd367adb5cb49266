"""From results to pictures, tables and measures; drawing is left to one rank."""

from thalweg.workbench.report.embedding_picture import draw_animation, draw_embedding
from thalweg.workbench.report.map_page import write_map_page
from thalweg.workbench.report.method_pictures import draw_convergence
from thalweg.workbench.report.obsm import write_obsm
from thalweg.workbench.report.tables import comparison_rows, format_table, search_seconds

__all__ = [
    "comparison_rows", "draw_animation", "draw_convergence",
    "draw_embedding", "format_table", "search_seconds", "write_map_page", "write_obsm",
]  # fmt: skip
