"""``python -m thalweg``: the command ``thalweg``."""

from thalweg.workbench.command.main import script

if __name__ == "__main__":
    script()
