"""``python -m thalweg``: the command ``thalweg``."""

from thalweg.workbench.command.main import script

script()
