"""Files and named sets of data, read into a data set over the ranks.

A reader is serial: it returns a :class:`Source`, whose rows ``load`` gives to the ranks.
"""

from thalweg.workbench.readers.formats import read_labels
from thalweg.workbench.readers.load import data_options, load_data
from thalweg.workbench.readers.named_sets import data_sets
from thalweg.workbench.readers.source import FileRows, Source

__all__ = ["FileRows", "Source", "data_options", "data_sets", "load_data", "read_labels"]
