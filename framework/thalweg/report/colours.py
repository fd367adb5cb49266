"""Colours that tell classes and methods apart."""

from __future__ import annotations

import numpy as np

#: Up to ten classes: strong, of similar weight, told apart in print as well.
_TEN = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#4d4d4d",
    "#bcbd22",
    "#17becf",
)

#: Colour of points without labels.
PLAIN = "#35618f"

INK = "#222222"
FAINT = "#c8c8c8"


def class_colours(count: int) -> np.ndarray:
    """Colours for ``count`` classes, shape ``(count, 3)``, between 0 and 1.

    Beyond ten, hues go round the circle while lightness alternates, so that
    neighbours on the circle differ in lightness.
    """
    if count <= len(_TEN):
        codes = [code.lstrip("#") for code in _TEN[:count]]
        channels = [[int(code[i : i + 2], 16) / 255 for i in (0, 2, 4)] for code in codes]
        return np.array(channels).reshape(count, 3)
    hues = 2 * np.pi * np.arange(count) / count
    lightness = np.resize([0.62, 0.45, 0.78], count)
    chroma = np.resize([0.17, 0.14, 0.13], count)
    return np.array([_from_oklch(*colour) for colour in zip(lightness, chroma, hues, strict=True)])


def _from_oklch(lightness: float, chroma: float, hue: float) -> np.ndarray:
    """sRGB of an Oklab colour (Ottosson 2020), clipped to what a screen can show."""
    a, b = chroma * np.cos(hue), chroma * np.sin(hue)
    cone = np.array(
        [
            lightness + 0.3963377774 * a + 0.2158037573 * b,
            lightness - 0.1055613458 * a - 0.0638541728 * b,
            lightness - 0.0894841775 * a - 1.2914855480 * b,
        ]
    )
    linear = (
        np.array(
            [
                [4.0767416621, -3.3077115913, 0.2309699292],
                [-1.2684380046, 2.6097574011, -0.3413193965],
                [-0.0041960863, -0.7034186147, 1.7076147010],
            ]
        )
        @ cone**3
    )
    linear = np.clip(linear, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
