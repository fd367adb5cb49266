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


def configuration_parser(command: str, description: str) -> Parser:
    """Parser of the commands that run a configuration."""
    parser = Parser(prog=f"thalweg {command}", description=description, allow_abbrev=False)
    parser.add_argument("config", metavar="CONFIG.toml", help="configuration file")
    parser.add_argument(
        "--set",
        dest="changes",
        metavar="section.key=value",
        action="append",
        default=[],
        help="change one option of the configuration; may be repeated",
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the results")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser
