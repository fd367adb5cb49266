"""What an installation is made of, and what is wrong with it.

The checks look at the libraries themselves, so that they also tell where the rest
of thalweg cannot be imported.
"""

from thalweg.diagnosis.examination import examine
from thalweg.diagnosis.libraries import Finding

__all__ = ["Finding", "examine"]
