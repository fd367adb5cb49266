"""What the README says of the embeddings."""

from __future__ import annotations

from typing import Any

PROBLEMS = {"EE": "elastic embedding, λ = 100", "s-SNE": "s-SNE", "t-SNE": "t-SNE"}

#: Evaluations of the homotopy in the paper (poster, 2012).
PUBLISHED = {"GD": 143_237, "SD": 5_183}


def summary(found: dict[str, Any]) -> str:
    """Markdown of the recorded results."""
    convergence, homotopy = found["convergence"], found["homotopy"]
    strategies = ("GD", "SD", "L-BFGS + SD")
    table = []
    for problem, name in PROBLEMS.items():
        curves = convergence["random"][problem]
        goal = curves["GD"][-1][2]
        cells = [_evaluations(curves[strategy], goal) for strategy in strategies]
        table.append(f"| {name} | " + " | ".join(cells) + " |")
    runs = homotopy["strategies"]
    slow = runs["GD, steps shrink"]
    unfinished = len(slow["by lambda"]) < homotopy["stages"]
    last = slow["by lambda"][-1][0]
    note = f" (gradient descent out of time at λ = {last:.0f})" if unfinished else ""
    return f"""
**[Embeddings](hpc/results/embedding.md)** (`scripts/bench embedding`).
{convergence["data"]} ({convergence["rows"]} images), from the same random start: evaluations
until a strategy is as low as gradient descent after {convergence["evaluations"]}; and for the
homotopy of the elastic embedding in {homotopy["stages"]}
steps of λ, with the line search of the method's authors (step lengths never grow), the evaluations
of the whole path:

| | gradient descent | spectral direction | L-BFGS + spectral |
|---|---:|---:|---:|
{chr(10).join(table)}
| homotopy{note} | {"> " * unfinished}{slow["evaluations"]:,} | \
{runs["SD, steps shrink"]["evaluations"]:,} | {runs["L-BFGS + SD"]["evaluations"]:,} |
| homotopy in the paper | {PUBLISHED["GD"]:,} | {PUBLISHED["SD"]:,} | – |

![convergence from a random start](hpc/results/embedding-convergence-random.png)

{_large(found["rivals"])} {_million(found["patches"])}

![t-SNE of {found["rivals"]["rows"]:,} images](hpc/results/embedding-map.png)
"""


def _evaluations(curve: list[list[float]], goal: float) -> str:
    for evaluations, _, value in curve:
        if value <= goal:
            return f"{evaluations:,.0f}"
    return "–"


def _large(found: dict[str, Any]) -> str:
    ours = found["programs"]["thalweg"]
    text = (
        f"`TSNE()` on {found['data']}, {found['rows']:,} points, {_cores(found)}: "
        f"{_described(ours)}, {found['peak memory, GiB']:.1f} GiB."
    )
    for name, theirs in found["programs"].items():
        if name == "thalweg" or "missing" in theirs:
            continue
        text += f" {name}, on the same affinities: {_described(theirs)}"
        reached = theirs["thalweg as good"]
        if reached:
            text += f"; here a map that is in all as good after {reached['CPU seconds']:.1f} s"
        text += "."
    return f"{text} {found['note']}" if found.get("note") else text


def _described(facts: dict[str, Any]) -> str:
    return (
        f"{facts['CPU seconds']:.1f} CPU seconds of optimization, KL divergence "
        f"{facts['kl']:.3f}, recall of 15 neighbors {facts['recall']:.3f}, accuracy "
        f"{facts['accuracy']:.3f}, "
        f"{facts['widest_side']:.0f} units wide"
    )


def _million(patches: dict[str, Any]) -> str:
    return (
        f"{patches['rows']:,} image patches: {patches['neighbors and affinities']:.0f} s for "
        f"approximate neighbors and affinities and {patches['optimization']:.0f} s of optimization "
        f"on {_cores(patches)}, {patches['peak memory, GiB']:.1f} GiB."
    )


def _cores(found: dict[str, Any]) -> str:
    return f"{found['cores']} core{'s' * (found['cores'] > 1)}"
