"""The report: one section a part, and the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hpc.bench.embedding.convergence import convergence_section
from hpc.bench.embedding.costs import costs_section
from hpc.bench.embedding.homotopy import homotopy_section
from hpc.bench.embedding.large import large_section
from hpc.bench.embedding.neighbors import neighbors_section
from hpc.bench.embedding.patches import patches_section
from hpc.bench.embedding.rivals import rivals_section, sets_section, threads_section
from hpc.bench.embedding.starts import starts_section
from hpc.bench.embedding.untuned import untuned_section

#: What each part writes, in the order of the report.
SECTIONS = {
    "convergence": convergence_section,
    "starts": starts_section,
    "homotopy": homotopy_section,
    "large": large_section,
    "rivals": rivals_section,
    "threads": threads_section,
    "sets": sets_section,
    "untuned": untuned_section,
    "costs": costs_section,
    "neighbors": neighbors_section,
    "patches": patches_section,
}

STRATEGIES = (
    "Strategies after Vladymyrov and Carreira-Perpinan: GD gradient descent, FP fixed-point "
    "iteration, DiagH the Hessian's diagonal, SD the spectral direction, SD- the partial Hessian, "
    "CG nonlinear conjugate gradients, L-BFGS with 100 pairs; L-BFGS + SD has the spectral "
    "direction as its H0, and 10 pairs. Counts of evaluations do not depend on how busy a machine "
    "is; seconds do."
)


def write_report(found: dict[str, Any], stem: Path) -> None:
    """Write ``stem``.md and its pictures."""
    text = ["# Nonlinear embeddings", "", STRATEGIES, ""]
    for part, section in SECTIONS.items():
        if part in found:
            text += section(found[part], stem)
            text += [_circumstances(found[part], found["machine"]["cores"]), ""]
    text += ["## Machine", "", "```", json.dumps(found["machine"], indent=1), "```", ""]
    stem.with_suffix(".md").write_text("\n".join(text), encoding="utf-8")


def _circumstances(part: dict[str, Any], cores: int) -> str:
    cores = part.get("cores", cores)
    text = f"Measured on {cores} core{'s' * (cores > 1)}, load average {part['load']:.1f}."
    return f"{text} {part['note']}" if part.get("note") else text
