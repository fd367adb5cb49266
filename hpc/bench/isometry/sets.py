"""The data sets: translating shapes, images of the digit 5, MNIST, patches, GIST descriptors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hpc.bench.isometry import generated
from sklearn.datasets import load_digits

from thalweg.workbench.readers import load_data

#: Names of the large sets on which the rank is sought, and what reports call them.
LARGE_SETS = {
    "mnist": "MNIST",
    "words": "rendered words",
    "textures": "disk textures",
    "windows": "sensor windows",
    "patches": "8 x 8 patches",
}


def shapes(count: int, edge: int, seed: int = 0, disks: bool = False) -> np.ndarray:
    """Different binary images of a square, or of a square or disk, somewhere in the frame."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:edge, :edge]
    found: dict[bytes, np.ndarray] = {}
    while len(found) < count:
        size = int(random.integers(2, max(3, edge // 2) + 1))
        top, left = random.integers(0, edge - size + 1, 2)
        if disks and random.random() < 0.5:
            center = np.array([top, left]) + (size - 1) / 2
            image = (rows - center[0]) ** 2 + (columns - center[1]) ** 2 <= (size / 2) ** 2
        else:
            image = (
                (rows >= top) & (rows < top + size) & (columns >= left) & (columns < left + size)
            )
        found.setdefault(image.tobytes(), image.ravel().astype(float))
    return np.array(list(found.values()))


def translations(edge: int, side: int) -> np.ndarray:
    """All binary images of one square in the frame."""
    places = np.arange(edge - side + 1)
    inside = ((lines := np.arange(edge)) >= places[:, None]) & (lines < places[:, None] + side)
    images = inside[:, None, :, None] & inside[None, :, None, :]
    return images.reshape(-1, edge * edge).astype(float)


def moved_squares(count: int, edge: int, side: float, seed: int = 0) -> np.ndarray:
    """Images of one square at random places between pixels, gray where it covers a part of one."""
    starts = np.random.default_rng(seed).uniform(0.0, edge - side, (count, 2, 1))
    lines = np.arange(edge)
    covered = np.minimum(lines + 1.0, starts + side) - np.maximum(lines, starts)
    rows, columns = np.clip(covered, 0.0, 1.0).swapaxes(0, 1)
    return (rows[:, :, None] * columns[:, None, :]).reshape(count, -1)


def mnist(folder: Path | None, part: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Images (n, 28, 28) uint8 and labels of ``train`` or ``t10k``, or None without data."""
    if folder is None:
        return None
    for place in (folder, folder / "mnist"):
        images = sorted(place.glob(f"{part}-images-idx3-ubyte*"))
        labels = sorted(place.glob(f"{part}-labels-idx1-ubyte*"))
        if images and labels:
            data = load_data({"path": str(images[0]), "labels": str(labels[0])})
            assert data.labels is not None
            return data.values.reshape(-1, 28, 28), data.labels
    return None


def large_set(folder: Path | None, name: str, rows: int) -> np.ndarray:
    """The first rows of a large set; normal points of a decaying spectrum in place of MNIST.

    Raises
    ------
    FileNotFoundError
        No patches in the folder.
    """
    if name == "patches":
        files = sorted((folder or Path()).glob("patches/*.npy"))
        if not files:
            raise FileNotFoundError("no file patches/*.npy; name its folder with --data")
        return np.array(np.load(files[0], mmap_mode="r", allow_pickle=False)[:rows])
    if name != "mnist":
        return np.asarray(getattr(generated, name)(rows))
    found = mnist(folder, "train")
    if found is not None:
        return found[0].reshape(len(found[0]), -1)[:rows]
    values = np.random.default_rng(0).standard_normal((rows, 784)) * np.exp(-np.arange(784) / 60.0)
    return values.astype(np.float32)


def fives(folder: Path | None, count: int) -> tuple[np.ndarray, str]:
    """The first images of the digit 5, and what they are."""
    train = mnist(folder, "train")
    if train is None:
        values, labels = load_digits(return_X_y=True)
        return values[labels == 5][:count] / 16.0, "scikit-learn's digits, 8 x 8"
    chosen = train[0][train[1] == 5][:count]
    small = chosen.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)) / 255.0
    return small.reshape(len(small), 49), "MNIST at 7 x 7"


def classified(
    folder: Path | None, rows: int, tests: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """Training and test images with labels: MNIST cropped to 20 x 20, or bundled digits."""
    train, test = mnist(folder, "train"), mnist(folder, "t10k")
    if train is None or test is None:
        values, labels = load_digits(return_X_y=True)
        return values[:1200], labels[:1200], values[1200:], labels[1200:], "scikit-learn's digits"

    def crop(images: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(images[:, 4:24, 4:24].reshape(len(images), 400))

    return (
        crop(train[0][:rows]),
        train[1][:rows],
        crop(test[0][:tests]),
        test[1][:tests],
        "MNIST, 20 x 20 crops",
    )


def gist(folder: Path | None, rows: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Points and queries: GIST descriptors of natural scenes, or bundled digits."""
    for place in (folder, folder / "gist") if folder else ():
        for file in sorted(place.glob("*gist*.npz")):
            points = np.load(file, allow_pickle=False)["X"]
            order = np.random.default_rng(0).permutation(len(points))
            rows = min(rows, len(points) - 485)
            return points[order[:rows]], points[order[-485:]], "GIST of Scene-15"
    values = load_digits().data
    return values[:1300], values[1300:], "scikit-learn's digits"
