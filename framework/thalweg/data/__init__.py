"""Data sets: what they are, and how they are read."""

from thalweg.data.dataset import Dataset, comm_of, validate_data
from thalweg.data.entries import check_magnitude, is_missing, is_unknown, label_array, plain_label

__all__ = [
    "Dataset", "check_magnitude", "comm_of", "is_missing", "is_unknown", "label_array",
    "plain_label", "validate_data",
]  # fmt: skip
