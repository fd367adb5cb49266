"""Data sets: what they are, and how they are read."""

from thalweg.data.dataset import Dataset
from thalweg.data.label_file import read_labels
from thalweg.data.load import data_options, load_data
from thalweg.data.magnitude import check_magnitude
from thalweg.data.sets import data_sets

__all__ = ["Dataset", "check_magnitude", "data_options", "data_sets", "load_data", "read_labels"]
