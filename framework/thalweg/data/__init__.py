"""Data sets: what they are, and how they are read."""

from thalweg.data.dataset import Dataset, comm_of, validate_data
from thalweg.data.labels import is_missing
from thalweg.data.scaling import check_magnitude

__all__ = ["Dataset", "check_magnitude", "comm_of", "is_missing", "validate_data"]
