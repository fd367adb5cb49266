"""Data sets: what they are, and how they are read."""

from thalweg.data.dataset import Dataset

__all__ = ["Dataset"]
