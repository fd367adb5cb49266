"""Functions of a symmetric matrix that is known by its products alone."""

from thalweg_saddlefree.curvature.absolute import AbsoluteSolver, AbsoluteStep, Model
from thalweg_saddlefree.curvature.basis import LanczosBasis
from thalweg_saddlefree.curvature.lanczos import LanczosAbsolute
from thalweg_saddlefree.curvature.ode import OdeAbsolute, SpectrumTooWide
from thalweg_saddlefree.curvature.operator import CurvatureOperator
from thalweg_saddlefree.curvature.slices import Slices

__all__ = [
    "AbsoluteSolver", "AbsoluteStep", "CurvatureOperator", "LanczosAbsolute", "LanczosBasis",
    "Model", "OdeAbsolute", "Slices", "SpectrumTooWide",
]  # fmt: skip
