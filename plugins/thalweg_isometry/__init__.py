"""Near-isometric linear embeddings: NuMax, FroMax, NILE-Pro, secants by column generation.

>>> from thalweg_isometry import NearIsometricEmbedding
>>> low = NearIsometricEmbedding(delta=0.4).fit_transform(images)

Names are imported when first used, so that listing plugins stays quick.
"""

from typing import TYPE_CHECKING

from thalweg.lazy import lazy_names

if TYPE_CHECKING:
    from thalweg_isometry.certificate import Certificate, certify
    from thalweg_isometry.estimators import (
        ADAGIO,
        FroMax,
        JohnsonLindenstrauss,
        LearnedJohnsonLindenstrauss,
        NearIsometricEmbedding,
        NILEPro,
        NuMax,
        SecantAvoidanceProjection,
        SecantPCA,
    )
    from thalweg_isometry.near_isometry import NearIsometry, secant_set

__all__ = [
    "ADAGIO", "Certificate", "FroMax", "JohnsonLindenstrauss", "LearnedJohnsonLindenstrauss",
    "NILEPro", "NearIsometricEmbedding", "NearIsometry", "NuMax", "SecantAvoidanceProjection",
    "SecantPCA", "certify", "secant_set",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
