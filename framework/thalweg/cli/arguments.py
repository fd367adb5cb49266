"""Argument parsing whose errors are one sentence and exit code 2, as all bad input."""

from __future__ import annotations

import argparse
from typing import NoReturn

from thalweg.errors import InputError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of printing its usage and exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise the message as bad input."""
        raise InputError(f"{message}; see {self.prog} --help")
