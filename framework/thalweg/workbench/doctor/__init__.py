"""Versions of an installation, and what is wrong with it.

The checks examine the libraries themselves, and so work where the rest of thalweg
cannot be imported.
"""

from thalweg.workbench.doctor.examination import examine
from thalweg.workbench.doctor.libraries import Finding, find_mpirun

__all__ = ["Finding", "examine", "find_mpirun"]
