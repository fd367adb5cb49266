"""Seconds of an iteration on more ranks than there are, from measured costs.

seconds = work / P + bytes x seconds per byte + messages x latency: the work is what one core was
measured to take for a row, or for a pair; bytes and messages of a rank are lines through what was
counted on up to 16 ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hpc.bench.scaling.cases import CASES
from scipy.optimize import nnls

#: Case of which bytes and messages were counted, to that of which seconds were measured.
SAME = {"t-SNE": "t-SNE, timed", "KDAC": "KDAC, features, timed", "network": "network, timed"}

#: The scan that was measured, columns of its points, and messages of a rank for each block.
SCAN, SCANNED_COLUMNS, MESSAGES_A_STEP = "secant scan", 200.0, 8.0

#: Phases of an iteration; what comes before it is done once.
ITERATED = ("optimize", "evaluate", "laplacian")

#: Rows and ranks on paper.
PAPER_ROWS, PAPER_RANKS = (10**6, 10**7, 10**8, 10**9), (64, 256, 1024, 4096)

#: Seconds of a message and of a byte between the nodes of a cluster, assumed: 2 us, 10 GB/s for
#: a node of 64 ranks that all send.
NETWORK = (2e-6, 64 / 10e9)


def predict(
    case: str, counts: Sequence[Mapping[str, Any]], times: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Seconds of an iteration on paper, and beside what two ranks were measured to take.

    ``counts`` are the entries of ``scaling.json``, ``times`` those of ``scaling-time.json`` of one
    machine.
    """
    timed = [e for e in times if e.get("case") == SAME[case]]
    counted = [e for e in counts if e["case"] == case and e["ranks"] > 1]
    alone = [e for e in timed if (e["ranks"], e["threads"]) == (1, 1)]
    between = [e for e in times if e.get("latency") and e["ranks"] == 2]
    if not (alone and counted and between):
        return None
    iterations = CASES[SAME[case]]["stop"]["iterations"]
    one = _iteration(alone[0], iterations) / alone[0]["rows"]
    ranks = np.array([e["ranks"] for e in counted], dtype=float)
    rows = np.array([e["rows"] for e in counted], dtype=float)
    sizes = _line(np.array([e["bytes"] for e in counted]), rows / ranks)
    numbers = _line(np.array([e["messages"] for e in counted]), ranks)

    def seconds(rows: float, ranks: float, message: float, byte: float) -> float:
        sent = sizes[0] + sizes[1] * rows / ranks, numbers[0] + numbers[1] * ranks
        return float(one * rows / ranks + byte * sent[0] + message * sent[1])

    here = between[0]["latency"], between[0]["seconds per byte"]
    held = [
        (e["rows"], _iteration(e, iterations), seconds(e["rows"], 2, *here))
        for e in timed
        if (e["ranks"], e["threads"]) == (2, 1)
    ]
    return {"held": held, "paper": _on_paper(seconds)}


def predict_scan(times: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """As :func:`predict`, of a complete scan of all secants of points of 200 columns.

    Its work goes with the pairs.  Blocks of points, in single precision, go half-way round the
    ranks: each rank sends ``N D / 2`` numbers, and a few messages a step.
    """
    timed = {(e["ranks"], e["rows"]): e["seconds"]["scan"][0] for e in times
             if e.get("case") == SCAN and e["threads"] == 1}  # fmt: skip
    between = [e for e in times if e.get("latency") and e["ranks"] == 2]
    if not timed or not between:
        return None
    alone = min(rows for ranks, rows in timed if ranks == 1)
    one = timed[1, alone] / alone**2

    def seconds(rows: float, ranks: float, message: float, byte: float) -> float:
        sent = 4.0 * rows * SCANNED_COLUMNS / 2.0 if ranks > 1 else 0.0
        return float(one * rows**2 / ranks + byte * sent + message * MESSAGES_A_STEP * ranks / 2.0)

    here = between[0]["latency"], between[0]["seconds per byte"]
    held = [(rows, took, seconds(rows, 2, *here)) for (p, rows), took in timed.items() if p == 2]
    return {"held": held, "paper": _on_paper(seconds)}


def _on_paper(seconds: Callable[[float, float, float, float], float]) -> list[dict[str, Any]]:
    powers = 2.0 ** np.arange(0, 17)
    paper = []
    for many in PAPER_ROWS:
        gains = [seconds(many, p, *NETWORK) for p in powers]
        paper.append(
            {
                "rows": many,
                "seconds": [seconds(many, p, *NETWORK) for p in PAPER_RANKS],
                "no gain beyond": int(powers[int(np.argmin(gains))]),
            }
        )
    return paper


def _iteration(entry: Mapping[str, Any], iterations: int) -> float:
    return sum(entry["seconds"].get(name, [0.0])[0] for name in ITERATED) / iterations


def _line(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Nonnegative a and b of a + b places that fit values best, relative to them."""
    weights = 1.0 / np.maximum(values, 1.0)
    both = np.stack([np.ones_like(places), places], axis=1)
    return nnls(both * weights[:, None], values * weights)[0]
