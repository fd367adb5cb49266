"""The data sets of Table 1, as the authors prepared them, and generated stand-ins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Problem:
    """One row group of Table 1: rows, the clustering given, the truth, and the parameters."""

    name: str
    points: np.ndarray
    given: np.ndarray
    truth: np.ndarray | None
    clusters: int
    components: int
    sigma: float
    penalty: float
    panels: tuple[tuple[int, int], tuple[int, int]] = ((0, 1), (0, 1))
    picture: np.ndarray | None = None
    published: dict[str, str] = field(default_factory=dict)


def _standard(points: np.ndarray) -> np.ndarray:
    return (points - points.mean(axis=0)) / points.std(axis=0)


def _median(points: np.ndarray) -> float:
    squares = (points**2).sum(axis=1)
    lengths = squares[:, None] + squares - 2.0 * points @ points.T
    return float(np.sqrt(np.median(lengths[np.triu_indices(len(points), 1)])))


def generated_problems(seed: int = 0) -> list[Problem]:
    """Two groups in two features, two others in two others; without and with noise."""
    stream = np.random.default_rng(seed)
    n = 400
    truth = np.repeat([0, 1], n // 2)
    given = np.arange(n) % 2  # independent of the truth
    views = [
        labels[:, None] * [6.0, 3.0] + stream.uniform(-1.5, 1.5, (n, 2))
        for labels in (truth, given)
    ]
    plain = _standard(np.concatenate(views, axis=1))
    noise = _standard(stream.uniform(-1, 1, (n, 3))) / 3
    noisy = np.concatenate([plain, noise], axis=1)
    panels = ((2, 3), (0, 1))
    return [
        Problem("Two views", plain, given, truth, 2, 2, 0.5, 1.0, panels),
        Problem("Two views + noise", noisy, given, truth, 2, 4, 0.5, 0.3, panels),
    ]


def authors_problems(folder: Path) -> list[Problem]:
    """The authors' sets: SG, LG, Moon, MoonN, Flower and Faces, with the paper's parameters."""

    def table(name: str) -> np.ndarray:
        return np.loadtxt(folder / f"{name}.csv", delimiter=",", ndmin=2)

    def labels(name: str) -> tuple[np.ndarray, np.ndarray]:
        return (
            table(f"{name}_original_label")[:, 0].astype(int),
            table(f"{name}_alt_label")[:, 0].astype(int),
        )

    small = table("data_4")
    # The file of the alternative labels holds zeros: the truth is the other feature's sign.
    split = table("data_4_Y_original").argmax(axis=1)
    problems = [
        Problem("SG", small, split, (small[:, 0] > 0).astype(int), 2, 1, 1.0, 0.04,
                published={"NMI": "1", "Time": "0.02"})
    ]  # fmt: skip
    large = table("Four_gaussian_3D_1000")
    problems.append(
        Problem("LG", large, *labels("Four_gaussian_3D_1000"), 2, 3, 5.0, 2.0, ((0, 1), (1, 2)),
                published={"NMI": "1", "Time": "0.239"})
    )  # fmt: skip
    moon = _standard(table("moon_400x4"))
    problems.append(
        Problem("Moon", moon, *labels("moon_400x4"), 2, 3, 0.1, 1.0, ((2, 3), (0, 1)),
                published={"NMI": "1", "Time": "0.575"})
    )  # fmt: skip
    noisy = _standard(table("moon_1000x7"))
    noisy[:, 4:] /= 3  # as the authors' script does
    problems.append(
        Problem("MoonN", noisy, *labels("moon_1000x7"), 2, 6, 0.2, 0.1, ((2, 3), (0, 1)),
                published={"NMI": "1", "Time": "0.3"})
    )  # fmt: skip
    problems.append(_flower(folder))
    faces = _standard(table("face_624_20"))
    identity, pose = labels("face_624_20")
    median = _median(faces)
    problems += [
        Problem("Faces (pose given, k = 4, paper's parameters)", faces, pose, identity, 4, 17, 3.1,
                1.0, published={"NMI": "0.57", "Time": "1.5"}),
        Problem("Faces (pose given, k = 4, searched)", faces, pose, identity, 4, 4, 0.0, 0.0),
        Problem("Faces (pose given, k = 20)", faces, pose, identity, 20, 10, 0.35 * median, 1.0),
        Problem("Faces (identity given, k = 4)", faces, identity, pose, 4, 4, 0.25 * median, 0.03),
    ]  # fmt: skip
    return problems


def _flower(folder: Path) -> Problem:
    from PIL import Image
    from sklearn.cluster import SpectralClustering

    picture = np.asarray(Image.open(folder / "Flower3.png").convert("RGB"))
    colours = np.unique(picture.reshape(-1, 3), axis=0)
    points = _standard(colours.astype(float))
    # No labels come with the picture: the clustering given is a spectral one of its colours.
    width = _median(points)
    spectral = SpectralClustering(2, gamma=0.5 / (0.3 * width) ** 2, random_state=0)
    given = spectral.fit_predict(points)
    return Problem("Flower", points, given, None, 2, 2, 2.0, 10.0, picture=picture,
                   published={"NMI": "-", "Time": "0.04"})  # fmt: skip
