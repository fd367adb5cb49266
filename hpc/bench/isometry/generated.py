"""Large sets that need no files: rendered words, textures of overlapping disks, sensor windows."""

from __future__ import annotations

import string
from collections.abc import Iterator
from pathlib import Path

import numpy as np

#: Edge of the images, and length of the windows.
EDGE, LENGTH = 28, 784


def words(count: int, seed: int = 0) -> np.ndarray:
    """Images of one to three letters or digits, uint8, shape (count, 784).

    Fonts, sizes, turns and places vary; the fonts are those that come with Matplotlib.
    """
    import matplotlib
    from matplotlib.ft2font import FT2Font

    random = np.random.default_rng(seed)
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    names = [f"DejaVu{kind}.ttf" for kind in ("Sans", "Sans-Bold", "Serif", "SansMono")]
    names += ["STIXGeneral.ttf", "STIXGeneralBol.ttf", "STIXGeneralItalic.ttf", "cmr10.ttf"]
    fonts = [FT2Font(str(folder / name)) for name in names]
    letters = np.array(list(string.ascii_letters + string.digits))
    images = np.zeros((count, EDGE, EDGE), dtype=np.uint8)
    for image in images:
        font = fonts[random.integers(len(fonts))]
        font.set_size(float(random.uniform(9.0, 18.0)), 72.0)
        word = "".join(random.choice(letters, random.integers(1, 4)))
        font.set_text(word, float(random.uniform(-12.0, 12.0)))
        font.draw_glyphs_to_bitmap(antialiased=True)
        drawn = np.array(font.get_image())[:EDGE, :EDGE]
        top, left = (int(random.integers(0, EDGE - size + 1)) for size in drawn.shape)
        image[top : top + drawn.shape[0], left : left + drawn.shape[1]] = drawn
    return images.reshape(count, -1)


def textures(count: int, seed: int = 0) -> np.ndarray:
    """Patches of pictures of overlapping disks, uint8, shape (count, 784).

    The disks' radii follow a power law, as sizes of things in photographs do (Lee, Mumford and
    Huang, Occlusion models for natural images, 2001), so that edges occur at all scales.
    """
    random = np.random.default_rng(seed)
    edge = 1024
    rows, columns = np.mgrid[:edge, :edge]
    patches: list[np.ndarray] = []
    while len(patches) < count:
        picture = np.zeros((edge, edge))
        for _ in range(20_000):
            # Density r^-3 between 3 and 300.
            radius = 1.0 / np.sqrt(random.uniform(1.0 / 300.0**2, 1.0 / 3.0**2))
            y, x = random.uniform(-radius, edge + radius, 2)
            part = (
                slice(max(0, int(y - radius)), max(0, int(y + radius) + 1)),
                slice(max(0, int(x - radius)), max(0, int(x + radius) + 1)),
            )
            inside = (rows[part] - y) ** 2 + (columns[part] - x) ** 2 <= radius**2
            picture[part][inside] = random.uniform(0.0, 255.0)
        for top, left in random.integers(0, edge - EDGE + 1, (min(3000, count - len(patches)), 2)):
            patches.append(picture[top : top + EDGE, left : left + EDGE].astype(np.uint8).ravel())
    return np.array(patches)


def windows(count: int, seed: int = 0) -> np.ndarray:
    """Windows of vibration as a sensor would record it, float32, shape (count, 784).

    Harmonics of a frequency and phase of their own, a decaying shock in some, and noise.
    """
    random = np.random.default_rng(seed)
    time = np.arange(LENGTH, dtype=np.float32) / LENGTH
    found = np.empty((count, LENGTH), dtype=np.float32)
    for rows in _blocks(count):
        n = rows.stop - rows.start
        wave = 0.05 * random.standard_normal((n, LENGTH), dtype=np.float32)
        base = random.uniform(3.0, 12.0, (n, 1)).astype(np.float32)
        for harmonic in range(1, 6):
            size = random.exponential(1.0 / harmonic, (n, 1)).astype(np.float32)
            phase = random.uniform(0.0, 2.0 * np.pi, (n, 1)).astype(np.float32)
            wave += size * np.sin(2.0 * np.pi * harmonic * base * time + phase)
        begin = random.uniform(0.0, 2.0, (n, 1)).astype(np.float32)  # beyond 1: no shock
        since = np.maximum(time - begin, 0.0)
        wave += 3.0 * (since > 0) * np.exp(-20.0 * since) * np.sin(2.0 * np.pi * 40.0 * since)
        found[rows] = wave
    return found


def _blocks(count: int, size: int = 4096) -> Iterator[slice]:
    for first in range(0, count, size):
        yield slice(first, min(count, first + size))
