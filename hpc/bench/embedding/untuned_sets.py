"""Sets by which no default was chosen, of kinds that users bring.

They are generated, or read from what scikit-learn and the installed packages ship.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_sample_images
from sklearn.feature_extraction.text import TfidfVectorizer


@dataclass(frozen=True)
class Points:
    """Rows, dense or sparse, their classes if they have any, and what they are."""

    values: Any
    labels: np.ndarray | None
    name: str


#: Packages whose docstrings are read; "" is the standard library.
PACKAGES = ("numpy", "scipy", "sklearn", "matplotlib", "numba", "")


def _docstrings(rows: int) -> Points:
    """Docstrings of at least 30 words, labelled by package; tf-idf of at most 10,000 words."""
    random = np.random.default_rng(11)
    texts: list[str] = []
    labels: list[int] = []
    for label, package in enumerate(PACKAGES):
        found = sorted(set(itertools.islice(_read(package, random), rows // len(PACKAGES))))
        texts += found
        labels += [label] * len(found)
    values = TfidfVectorizer(max_features=10_000, sublinear_tf=True).fit_transform(texts)
    return Points(values, np.array(labels), "docstrings of six packages, tf-idf, sparse")


def _read(package: str, random: np.random.Generator) -> Iterator[str]:
    """Long docstrings of functions and classes of a package, its files in random order."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    if package:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            return
        folder = Path(spec.origin).parent
    files = sorted(folder.rglob("*.py"))
    for file in (files[number] for number in random.permutation(len(files))):
        if {"tests", "test", "site-packages"} & set(file.relative_to(folder).parts):
            continue
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if len(text.split()) >= 30:
                    yield text


def _table(rows: int) -> Points:
    """Twelve questions with 2 to 10 answers each, one column an answer, and five numbers."""
    random = np.random.default_rng(12)
    labels = random.choice(7, rows, p=random.dirichlet(np.full(7, 3.0)))
    columns = []
    for answers in random.integers(2, 11, 12):
        shares = random.dirichlet(np.full(answers, 0.5), 7)
        drawn = (random.random((rows, 1)) > np.cumsum(shares, axis=1)[labels]).sum(axis=1)
        columns.append(np.eye(answers)[np.minimum(drawn, answers - 1)])
    numbers = random.normal(size=(7, 5))[labels] + random.normal(size=(rows, 5))
    return Points(np.hstack([*columns, numbers]), labels, "a table with categories, one-hot")


def _counts(rows: int, genes: int = 500) -> Points:
    """Negative binomial counts as they are: no logarithm, and depths that differ tenfold."""
    random = np.random.default_rng(13)
    labels = random.choice(12, rows, p=random.dirichlet(np.full(12, 1.0)))
    rates = np.exp(random.normal(size=genes) + random.normal(size=(12, genes)))
    depth = random.lognormal(0.0, 0.6, (rows, 1))
    means = depth * rates[labels]
    values = random.poisson(means * random.gamma(2.0, 0.5, means.shape)).astype(float)
    return Points(values, labels, "negative binomial counts")


def _series(rows: int, length: int = 128) -> Points:
    """Windows of eight kinds of signals, each with its own phase, rate and noise."""
    random = np.random.default_rng(14)
    labels = random.integers(0, 8, rows)
    time = np.linspace(0.0, 1.0, length)[None, :]
    phase, rate = random.random((rows, 1)), random.uniform(2.0, 5.0, (rows, 1))
    turns = rate * time + phase
    walk = np.cumsum(random.normal(size=(rows, length)), axis=1) / np.sqrt(length)
    kinds = (
        np.sin(2.0 * np.pi * turns),
        np.sign(np.sin(2.0 * np.pi * turns)),
        2.0 * (turns % 1.0) - 1.0,
        np.sin(2.0 * np.pi * turns * (1.0 + time)),
        np.exp(-(((time - phase) / 0.05) ** 2)),
        np.tanh(20.0 * (time - phase)),
        np.exp(-rate * time) * np.sin(8.0 * np.pi * turns),
        walk,
    )
    values = np.choose(labels[:, None], kinds) + 0.2 * random.normal(size=(rows, length))
    return Points(values, labels, "windows of eight kinds of signals")


def _copies(rows: int) -> Points:
    """Two points a third of all rows each, and ten clusters."""
    random = np.random.default_rng(15)
    many = rows // 3
    centers = random.normal(size=(12, 20)) * 3.0
    labels = np.concatenate([np.repeat([0, 1], many), random.integers(2, 12, rows - 2 * many)])
    noise = np.where(labels[:, None] < 2, 0.0, random.normal(size=(rows, 20)))
    order = random.permutation(rows)
    return Points((centers[labels] + noise)[order], labels[order], "copies by the thousand")


def _plane(rows: int) -> Points:
    """Two dimensions: a square, a ring, a spiral, a line and two blobs of unequal width."""
    random = np.random.default_rng(16)
    labels = random.integers(0, 6, rows)
    along, noise = random.random(rows), 0.03 * random.normal(size=(rows, 2))
    angle = 2.0 * np.pi * along

    def at(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.column_stack([x, y])

    kinds = (
        random.random((rows, 2)) * 2.0,
        at(np.cos(angle) + 4.0, np.sin(angle) + 1.0) + noise,
        (0.2 + along)[:, None] * at(np.cos(2 * angle), np.sin(2 * angle)) + [8, 1] + noise,
        at(10.0 * along, np.full(rows, -2.0)) + noise,
        at(np.full(rows, 1.0), np.full(rows, 5.0)) + 0.1 * random.normal(size=(rows, 2)),
        at(np.full(rows, 6.0), np.full(rows, 5.0)) + random.normal(size=(rows, 2)),
    )
    return Points(np.choose(labels[:, None], kinds), labels, "two dimensions")


def _wide(rows: int, columns: int = 10_000) -> Points:
    """Ten classes in a tenth of 10,000 columns; noise in all."""
    random = np.random.default_rng(17)
    labels = random.integers(0, 10, rows)
    means = random.normal(size=(10, columns)) * (random.random(columns) < 0.1) * 0.4
    return Points(means[labels] + random.normal(size=(rows, columns)), labels, "10,000 columns")


def _outliers(rows: int) -> Points:
    """Eight classes with noise as Student's t with one degree of freedom, a factor to a row."""
    random = np.random.default_rng(18)
    labels = random.integers(0, 8, rows)
    centers = random.normal(size=(8, 20)) * 3.0
    noise = random.normal(size=(rows, 20)) / np.abs(random.normal(size=(rows, 1)))
    return Points(centers[labels] + 0.5 * noise, labels, "heavy outliers (Cauchy)")


def _unbalanced(rows: int) -> Points:
    """Nine classes, each about half as large as the one before, down to some points."""
    random = np.random.default_rng(19)
    sizes = np.maximum(rows * 0.5 ** np.arange(1, 10), 4).astype(int)
    labels = np.repeat(np.arange(9), sizes)
    values = random.normal(size=(9, 30))[labels] * 1.2 + random.normal(size=(len(labels), 30))
    return Points(values, labels, "unbalanced classes")


def _hierarchy(rows: int) -> Points:
    """Three in each of three in each of three in each of three, each level a third as wide."""
    random = np.random.default_rng(20)
    labels = random.integers(0, 81, rows)
    values = 0.15 * random.normal(size=(rows, 50))
    for level in range(4):
        group = labels // 3 ** (3 - level)
        values += random.normal(size=(3 ** (level + 1), 50))[group] * 2.0 / 2.0**level
    return Points(values, labels // 9, "a nested hierarchy of 81 groups, colored by 9")


def _roll(rows: int) -> Points:
    """A rolled sheet whose density falls tenfold along the roll, colored by twelve parts of it."""
    random = np.random.default_rng(21)
    along = random.beta(1.0, 3.0, rows)
    angle = 1.5 * np.pi * (1.0 + 2.0 * along)
    width = 21.0 * random.random(rows)
    sheet = np.column_stack([angle * np.cos(angle), width, angle * np.sin(angle)])
    values = sheet + 0.1 * random.normal(size=(rows, 3))
    return Points(values, np.minimum((12.0 * along).astype(int), 11), "a roll, unequally dense")


def _binary(rows: int) -> Points:
    """Twelve patterns of 200 zeros and ones, of which 15 % are turned over."""
    random = np.random.default_rng(22)
    labels = random.integers(0, 12, rows)
    patterns = random.random((12, 200)) < random.beta(0.5, 2.0, 200)
    turned = random.random((rows, 200)) < 0.15
    return Points((patterns[labels] ^ turned).astype(float), labels, "zeros and ones")


def _colors(rows: int) -> Points:
    """Colors of pixels of two photographs, 0 to 255: three columns, and copies."""
    random = np.random.default_rng(23)
    photos = [np.asarray(photo).reshape(-1, 3) for photo in load_sample_images().images]
    some = [photo[random.choice(len(photo), rows // 2, replace=False)] for photo in photos]
    labels = np.repeat(np.arange(len(some)), rows // 2)
    return Points(np.concatenate(some).astype(float), labels, "colors of pixels, two photographs")


def _tumors(rows: int) -> Points:
    found = load_breast_cancer()
    return Points(found.data, found.target, "tumors (breast_cancer), columns as they are")


#: Sets and how many rows they have, if they can have as many.
SETS: dict[str, tuple[Callable[[int], Points], int]] = {
    "docstrings": (_docstrings, 1_800),
    "table": (_table, 2_000),
    "counts": (_counts, 2_000),
    "series": (_series, 2_000),
    "copies": (_copies, 3_000),
    "plane": (_plane, 2_000),
    "wide": (_wide, 1_000),
    "outliers": (_outliers, 2_000),
    "unbalanced": (_unbalanced, 2_000),
    "hierarchy": (_hierarchy, 2_000),
    "roll": (_roll, 2_000),
    "binary": (_binary, 1_500),
    "colors": (_colors, 2_000),
    "tumors": (_tumors, 569),
}
