"""A million image patches: that a run finishes, in what memory and time."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

import thalweg
from thalweg.data import Dataset
from thalweg.workbench.report import format_table
from thalweg_embedding import map_quality
from thalweg_embedding.objectives import t_sne

#: Most seconds of the optimization, which ends at the first iterate after them.
SECONDS = 300.0


#: What tsne-h2pack 3.2.0 took on two cores for these patches, data to map, when it was measured
#: beside an earlier version; ``--rival tsne-h2pack`` measures it again.
EARLIER = {
    "seconds": 322.0,
    "of it neighbors": 95.0,
    "cores": 2,
    "kl": 4.978,
    "recall": 0.165,
    "peak memory, GiB": 6.5,
}


def measure_patches(
    folder: Path | None, rows: int, iterations: int, rival: bool = False
) -> dict[str, Any]:
    """t-SNE of natural image patches, approximate neighbors, perplexity 10.

    ``rival``: whether tsne-h2pack embeds them as well, before.
    """
    file = None if folder is None else folder / "patches" / "scene15_patches8x8_1M.npy"
    if file is None or not file.exists():
        return {"missing": "no folder with patches/ was given"}
    values = np.load(file, mmap_mode="r", allow_pickle=False)[:rows].astype(np.float32)
    begin = time.perf_counter()
    data = Dataset.from_array(values, name="patches")
    objective = t_sne(
        data, data.comm, perplexity=10.0, neighbor_search="approximate", graph="sparse", init="pca"
    )
    building = time.perf_counter() - begin
    found: dict[str, Any] = {"rows": len(values), "neighbors and affinities": building}
    goal = EARLIER["kl"]
    if rival:
        places, spent = _h2pack(file, len(values))
        goal = objective.metrics(np.ascontiguousarray(places, dtype=float))["kl_divergence"]
        quality = {"kl": goal, "recall": map_quality(data, places)["recall"]}
        found["tsne-h2pack"] = {**spent, **quality, "cores": numba.get_num_threads()}
    reached: list[tuple[dict[str, float], np.ndarray]] = []

    def note(iterate: Any) -> None:
        """Keep the first map with the divergence that the other program ends with."""
        if not reached and objective.homotopy_parameter == 1.0 and iterate.objective <= goal:
            spent = {"seconds": iterate.seconds, "kl": iterate.objective}
            reached.append((spent, np.array(iterate.rows, dtype=np.float32)))

    result = thalweg.minimize(
        objective,
        solver="lbfgs",
        preconditioner="spectral",
        iterations=iterations,
        seconds=SECONDS,
        decrease=1e-6,
        callback=note,
    )
    trace = result.trace
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found |= {
        "setup": float(result.seconds["setup"]),
        "optimization": float(result.seconds["optimize"]),
        "evaluations": result.evaluations,
        "kl": float(result.metrics.get("kl_divergence", result.objective)),
        "recall": map_quality(data, result.x)["recall"],
        "peak memory, GiB": peak,
        "curve": [
            [float(s), float(v), float(lambda_)]
            for s, v, lambda_ in zip(
                trace["seconds"], trace["objective"], trace["lambda"], strict=True
            )
        ],
    }
    for spent, places in reached:
        found["reached"] = {**spent, "recall": map_quality(data, places)["recall"]}
    return found


#: Run by itself, so that its memory is not counted with ours: the file of points, their number,
#: threads, and the file of the map.
_H2PACK = """
import json, resource, sys, time
import numpy as np
from tsne_h2pack import TSNE
file, rows, threads, out = sys.argv[1:]
values = np.load(file, mmap_mode="r", allow_pickle=False)[: int(rows)].astype(float)
begin = time.perf_counter()
places = TSNE(perplexity=10.0, random_state=0, n_jobs=int(threads)).fit_transform(values)
seconds = time.perf_counter() - begin
np.save(out, np.asarray(places, dtype=float))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"seconds": seconds, "peak memory, GiB": peak}))
"""


def _h2pack(file: Path, rows: int) -> tuple[np.ndarray, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/map.npy"
        call = [sys.executable, "-c", _H2PACK, str(file), str(rows), str(numba.get_num_threads())]
        done = subprocess.run([*call, out], check=True, stdout=subprocess.PIPE, text=True)
        return np.load(out, allow_pickle=False), json.loads(done.stdout.splitlines()[-1])


def patches_section(found: dict[str, Any], stem: Path) -> list[str]:
    """One row of what it took."""
    if "missing" in found:
        return []
    row = {
        key: value
        for key, value in found.items()
        if key not in ("curve", "load", "cores", "note", "reached", "tsne-h2pack")
    }
    return [
        f"## {found['rows']:,} image patches",
        "",
        "8 x 8 pixels, t-SNE with perplexity 10, approximate neighbors; seconds.  The "
        f"optimization may take {SECONDS:g} s.",
        "",
        format_table([row], markdown=True),
        "",
        *_compared(found),
    ]


def _compared(found: dict[str, Any]) -> list[str]:
    """When a map here has the divergence of tsne-h2pack's; records from before have no recall."""
    theirs = found.get("tsne-h2pack", EARLIER)
    goal = theirs["kl"]
    as_low = [s for s, value, lambda_ in found["curve"] if lambda_ == 1 and value <= goal]
    if not as_low:
        return []
    before = found["neighbors and affinities"]
    seconds = as_low[0]
    recall = ""
    if "reached" in found:
        seconds = found["reached"]["seconds"]
        recall = f" and recall {found['reached']['recall']:.3f}"
    text = (
        f"tsne-h2pack 3.2.0 on {theirs['cores']} core{'s' * (theirs['cores'] > 1)}"
        f"{'' if 'tsne-h2pack' in found else ', measured earlier'}: {theirs['seconds']:.0f} s from "
        f"data to map, KL divergence {theirs['kl']:.3f}, recall {theirs['recall']:.3f}"
    )
    if "peak memory, GiB" in theirs:
        text += f", {theirs['peak memory, GiB']:.1f} GiB"
    text += (
        f". Here on {found['cores']} core{'s' * (found['cores'] > 1)} a map has a divergence below "
        f"{goal:.3f}{recall} after {before + seconds:.0f} s, of which neighbors and "
        f"affinities take {before:.0f}."
    )
    return [text, ""]
