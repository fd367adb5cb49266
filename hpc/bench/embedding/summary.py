"""Rows of the README's table about the embeddings."""

from __future__ import annotations

from typing import Any

#: Evaluations of the homotopy in the paper (poster, 2012).
PUBLISHED = {"GD": 143_237, "SD": 5_183}


def rows(records: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What was measured, ours, and others'."""
    rivals, patches, homotopy = records["rivals"], records["patches"], records["homotopy"]
    programs = {name: r for name, r in rivals["programs"].items() if "missing" not in r}
    theirs = [f"{name} {_figures(r)}" for name, r in programs.items() if name != "thalweg"]
    h2pack = patches["tsne-h2pack"]
    seconds = patches["neighbors and affinities"] + patches["optimization"]
    as_low = patches["neighbors and affinities"] + patches["reached"]["seconds"]
    runs = homotopy["strategies"]
    return [
        (
            f"`TSNE()`, {rivals['data']}, {rivals['rows']:,} rows, {_cores(rivals)}: CPU seconds "
            "of optimization, KL divergence, recall of 15 neighbors, accuracy",
            _figures(programs["thalweg"]),
            "; ".join(theirs),
        ),
        (
            f"{patches['rows']:,} image patches, {_cores(patches)}: seconds from data to map, KL "
            "divergence, recall",
            f"{seconds:.0f}, {patches['kl']:.2f}, {patches['recall']:.3f}; {as_low:.0f}, "
            f"{patches['reached']['kl']:.2f}, {patches['reached']['recall']:.3f} on the way",
            f"tsne-h2pack {h2pack['seconds']:.0f}, {h2pack['kl']:.2f}, {h2pack['recall']:.3f}",
        ),
        (
            f"homotopy of the elastic embedding, {homotopy['stages']} steps of λ: evaluations",
            f"{runs['L-BFGS + SD']['evaluations']:,}",
            f"paper: spectral direction {PUBLISHED['SD']:,}, gradient descent {PUBLISHED['GD']:,}",
        ),
    ]


def _figures(program: dict[str, Any]) -> str:
    return (
        f"{program['CPU seconds']:.1f}, {program['kl']:.3f}, {program['recall']:.3f}, "
        f"{program['accuracy']:.3f}"
    )


def _cores(record: dict[str, Any]) -> str:
    return f"{record['cores']} core{'s' * (record['cores'] > 1)}"
