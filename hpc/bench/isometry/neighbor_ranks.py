"""Least ranks at which ten nearest rows stay among first candidates, beside principal components.

``python -m hpc.bench.isometry.neighbor_ranks NAME[:ROWS[:NEW]]...`` takes names of data sets or
files, and prints a row of a table for each and for three goals: the rank by
``NearIsometricEmbedding``, the least of principal components (PCA), by how many first candidates
PCA of the first rank holds the nearest, and of how many of NEW other rows all ten nearest are among
so many.
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.neighbors import NearestNeighbors

from thalweg.workbench.readers import load_data
from thalweg_isometry import NearIsometricEmbedding, certify

#: Candidates, and the share of the rows.
GOALS = ((30, 1.0), (30, 0.99), (100, 1.0))
NEIGHBORS = 10


def places(rows: np.ndarray, images: np.ndarray) -> np.ndarray:
    """First candidates that hold the nearest of each row, ascending."""
    facts = certify(rows, images, quantity="neighbors", n_neighbors=NEIGHBORS)
    return np.sort(facts.row_worst[:, 1])


def kept(rows: np.ndarray, new: np.ndarray, psi: np.ndarray, count: int) -> float:
    """Share of new rows whose nearest are all among the first candidates."""
    near = NearestNeighbors(n_neighbors=NEIGHBORS).fit(rows).kneighbors(new)[1]
    first = NearestNeighbors(n_neighbors=count).fit(rows @ psi.T).kneighbors(new @ psi.T)[1]
    return float(np.mean([np.isin(a, b).all() for a, b in zip(near, first, strict=True)]))


def table(name: str, rows: np.ndarray, new: np.ndarray) -> None:
    """Print the rows of one set."""
    principal = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2]
    for count, share in GOALS:
        last, began = int(np.ceil(share * len(rows))) - 1, time.process_time()
        own = NearIsometricEmbedding(n_candidates=count, share=share, n_jobs=1).fit(rows)
        seconds, rank = time.process_time() - began, own.n_components_
        low, high = 0, len(principal)
        while high - low > 1:
            middle = (low + high) // 2
            serves = places(rows, rows @ principal[:middle].T)[last] <= count
            low, high = (low, middle) if serves else (middle, high)
        same = places(rows, rows @ principal[:rank].T)[last]
        shares = [kept(rows, new, psi, count) for psi in (own.components_, principal[:rank])]
        cells = (
            name, f"{len(rows):,} × {rows.shape[1]}", count, f"{share:.0%}", rank, high,
            own.n_candidates_, int(same), *(f"{each:.1%}" for each in shares), f"{seconds:.0f}",
        )  # fmt: skip
        print("|", " | ".join(map(str, cells)), "|", flush=True)


def main(arguments: list[str]) -> None:
    """Print the table of these sets."""
    warnings.simplefilter("ignore")
    for argument in arguments:
        name, *counts = argument.split(":")
        section = {"path" if Path(name).exists() else "name": name}
        values = np.unique(np.asarray(load_data(section).values, dtype=float), axis=0)
        values = np.random.default_rng(0).permutation(values)
        many, new = (*map(int, counts), 1000, 200)[:2] if len(counts) < 2 else map(int, counts)
        table(Path(name).stem, values[:many], values[many : many + new])


if __name__ == "__main__":
    main(sys.argv[1:])
