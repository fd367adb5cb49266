"""Data sets: what they are, and how they are read."""

from thalweg.data.dataset import Dataset, comm_of
from thalweg.data.labels import read_labels
from thalweg.data.load import data_options, load_data
from thalweg.data.scaling import check_magnitude
from thalweg.data.sets import data_sets
from thalweg.data.source import FileRows, Source
from thalweg.parallel.principal import principal_components

__all__ = [
    "Dataset",
    "FileRows",
    "Source",
    "check_magnitude",
    "comm_of",
    "data_options",
    "data_sets",
    "load_data",
    "principal_components",
    "read_labels",
]
