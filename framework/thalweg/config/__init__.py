"""Configuration files, checked against what the plugins declare."""

from thalweg.config.configuration import Configuration, Method
from thalweg.config.reading import read_configuration

__all__ = ["Configuration", "Method", "read_configuration"]
