"""Near-isometric linear embeddings: NuMax, FroMax, NILE-Pro, secants by column generation.

>>> from thalweg_isometry import NearIsometricEmbedding
>>> low = NearIsometricEmbedding(delta=0.4).fit_transform(images)

Names are imported when first used, so that listing plugins stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg_isometry.certificate import Certificate, certify
    from thalweg_isometry.estimators import (
        FroMax,
        NearIsometricEmbedding,
        NILEPro,
        NuMax,
        SecantPCA,
    )
    from thalweg_isometry.objective import NearIsometry, secant_set

_WHERE = {
    "Certificate": "certificate",
    "FroMax": "estimators",
    "NILEPro": "estimators",
    "NearIsometricEmbedding": "estimators",
    "NearIsometry": "objective",
    "NuMax": "estimators",
    "SecantPCA": "estimators",
    "certify": "certificate",
    "secant_set": "objective",
}

__all__ = [
    "Certificate",
    "FroMax",
    "NILEPro",
    "NearIsometricEmbedding",
    "NearIsometry",
    "NuMax",
    "SecantPCA",
    "certify",
    "secant_set",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
