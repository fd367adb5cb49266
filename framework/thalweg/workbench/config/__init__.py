"""Configuration files, checked against what the plugins declare."""

from thalweg.workbench.config.configuration import Configuration, Method
from thalweg.workbench.config.resolution import read_configuration

__all__ = ["Configuration", "Method", "read_configuration"]
