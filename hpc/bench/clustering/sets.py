"""The data sets of Table 1, as the authors prepared them, and generated stand-ins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from thalweg.parallel import MPI, Layout
from thalweg_clustering.prepared_data import median_distance


@dataclass(frozen=True)
class Problem:
    """One row group of Table 1: rows, the clustering given, the truth, and the parameters.

    ``published`` has, for each method of the paper, its NMI, CQ, novelty, cost and seconds.
    """

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
    published: dict[str, tuple[str, ...]] = field(default_factory=dict)


#: Table 1 of Wu et al. (2018): NMI, CQ, novelty, cost and seconds (Intel Xeon E7) of each method.
PUBLISHED: dict[str, dict[str, tuple[str, ...]]] = {
    "SG": {
        "ISM SI": ("1", "2", "0", "-1.2", "0.02"),
        "ISM RI": ("0.4", "1.6", "0.0", "-1.48", "0.04"),
        "SM SI": ("1", "1.99", "0", "-1.791", "0.404"),
        "SM RI": ("1", "1.79", "0.0", "-1.59", "1.47"),
        "DG SI": ("0", "1.629", "1", "-1.316", "1.732"),
        "DG RI": ("0.93", "0.99", "0.03", "-0.99", "1.51"),
    },
    "LG": {
        "ISM SI": ("1", "1.9", "0", "509", "0.239"),
        "ISM RI": ("0.8", "1.9", "0.0", "605", "0.18"),
        "SM SI": ("1", "1.9", "0", "509", "0.413"),
        "SM RI": ("0.4", "1.9", "0.6", "1095", "11.21"),
        "DG SI": ("1", "1.9", "0", "509.975", "1595.174"),
        "DG RI": ("0.1", "0.61", "0.9", "101.5", "1688"),
    },
    "Moon": {
        "ISM SI": ("1", "2", "0", "149", "0.575"),
        "ISM RI": ("0.4", "2.0", "0.5", "269.98", "3.07"),
        "SM SI": ("1", "1.998", "0", "149", "2.653"),
        "SM RI": ("0.27", "2.0", "0.5", "277", "258"),
        "DG SI": ("1", "1.998", "0", "149.697", "359.188"),
        "DG RI": ("0.09", "1.27", "0.8", "161.65", "3212"),
    },
    "MoonN": {
        "ISM SI": ("1", "2", "0", "15.3", "0.3"),
        "ISM RI": ("0.91", "2.0", "0.04", "15.59", "0.55"),
        "SM SI": ("1", "2", "0", "15.3", "0.452"),
        "SM RI": ("0.22", "2.0", "0.72", "17.7", "102"),
        "DG SI": ("1", "2", "0", "15.4", "3836.3"),
        "DG RI": ("0", "1.6", "1.0", "16.2", "3588"),
    },
    "Flower": {
        "ISM SI": ("-", "0.41", "0", "20", "0.04"),
        "ISM RI": ("-", "0.41", "0.0", "19.51", "0.1"),
        "SM SI": ("-", "0.41", "0", "20", "0.153"),
        "SM RI": ("-", "0.3", "0.01", "0.7", "0.8"),
        "DG SI": ("-", "0.41", "0", "20", "27.251"),
        "DG RI": ("-", "0.35", "0.2", "20.6", "37.0"),
    },
    "Faces": {
        "ISM SI": ("0.57", "0.61", "0.004", "59.6", "1.5"),
        "ISM RI": ("0.56", "0.61", "0.0", "59.6", "1.51"),
        "SM SI": ("0.562", "0.608", "0.004", "59.559", "7.96"),
        "SM RI": ("0.57", "0.61", "0.004", "59.7", "109"),
        "DG SI": ("0.564", "0.6", "0.004", "59.8", "100591.071"),
        "DG RI": ("0.458", "0.565", "0.024", "54.28", "166070"),
    },
    "WebKB": {
        "ISM SI": ("0.37", "0.286", "0", "-0.273", "231"),
        "ISM RI": ("0.29", "0.54", "0.01", "-0.52", "137.45"),
        "SM SI": ("0.048", "3.296", "0.034", "-3.159", "9.945"),
        "SM RI": ("0.33", "0.12", "0.008", "-0.11", "13511"),
        "DG SI": ("0.048", "1.066", "0.034", "-1.019", "199887.134"),
        "DG RI": ("0.23", "1.06", "0.1", "0.616", "727694"),
    },
}


def _standard(points: np.ndarray) -> np.ndarray:
    return (points - points.mean(axis=0)) / points.std(axis=0)


def median_of(points: np.ndarray) -> float:
    """Median distance of the points."""
    return median_distance(Layout(MPI.COMM_SELF, *points.shape), points, len(points))


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
                published=PUBLISHED["SG"])
    ]  # fmt: skip
    large = table("Four_gaussian_3D_1000")
    problems.append(
        Problem("LG", large, *labels("Four_gaussian_3D_1000"), 2, 3, 5.0, 2.0, ((0, 1), (1, 2)),
                published=PUBLISHED["LG"])
    )  # fmt: skip
    moon = _standard(table("moon_400x4"))
    problems.append(
        Problem("Moon", moon, *labels("moon_400x4"), 2, 3, 0.1, 1.0, ((2, 3), (0, 1)),
                published=PUBLISHED["Moon"])
    )  # fmt: skip
    noisy = _standard(table("moon_1000x7"))
    noisy[:, 4:] /= 3  # as the authors' script does
    problems.append(
        Problem("MoonN", noisy, *labels("moon_1000x7"), 2, 6, 0.2, 0.1, ((2, 3), (0, 1)),
                published=PUBLISHED["MoonN"])
    )  # fmt: skip
    problems.append(_flower(folder))
    faces = _standard(table("face_624_20"))
    identity, pose = labels("face_624_20")
    median = median_of(faces)
    problems += [
        Problem("Faces (pose given, k = 4, paper's parameters)", faces, pose, identity, 4, 17, 3.1,
                1.0, published=PUBLISHED["Faces"]),
        Problem("Faces (pose given, k = 4, searched)", faces, pose, identity, 4, 4, 0.0, 0.0),
        Problem("Faces (pose given, k = 20)", faces, pose, identity, 20, 10, 0.35 * median, 1.0),
        Problem("Faces (identity given, k = 4, paper's parameters)", faces, identity, pose, 4, 17,
                3.1, 1.0, published=PUBLISHED["Faces"]),
        Problem("Faces (identity given, k = 4)", faces, identity, pose, 4, 4, 0.25 * median, 0.03),
    ]  # fmt: skip
    web = folder.parent / "webkb" / "webkb_counts_rebuilt.npz"
    if web.exists():
        with np.load(web) as held:
            counts, university, topic = held["X"], held["univ"], held["topic"]
        words = _standard(np.asarray(counts, dtype=float))
        problems.append(
            Problem("WebKB (university given, paper's parameters)", words, university, topic, 4, 4,
                    18.7, 0.057, published=PUBLISHED["WebKB"])
        )  # fmt: skip
    return problems


def _flower(folder: Path) -> Problem:
    from PIL import Image
    from sklearn.cluster import SpectralClustering

    picture = np.asarray(Image.open(folder / "Flower3.png").convert("RGB"))
    colors = np.unique(picture.reshape(-1, 3), axis=0)
    points = _standard(colors.astype(float))
    # No labels come with the picture: the clustering given is a spectral one of its colors.
    width = median_of(points)
    spectral = SpectralClustering(2, gamma=0.5 / (0.3 * width) ** 2, random_state=0)
    given = spectral.fit_predict(points)
    return Problem("Flower", points, given, None, 2, 2, 2.0, 10.0, picture=picture,
                   published=PUBLISHED["Flower"])  # fmt: skip


def four_groups(rows: int = 600) -> tuple[str, np.ndarray, list[np.ndarray]]:
    """Groups at the corners of a tetrahedron: three balanced splits, and two noisy features."""
    stream = np.random.default_rng(0)
    a, b = np.arange(rows) // 2 % 2, np.arange(rows) % 2
    corners = 3.0 * (2 * np.stack([a, b, a ^ b], axis=1) - 1)
    noise = stream.uniform(-1, 1, (rows, 2))
    points = np.concatenate([corners + stream.standard_normal((rows, 3)), noise], axis=1)
    return "four groups, three splits", points, [a, b, a ^ b]
