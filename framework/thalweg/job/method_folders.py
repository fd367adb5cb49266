"""Names of the folders of a comparison's methods."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: What a comparison and a run leave in the folder itself.
TAKEN = (
    "checkpoint",
    "comparison.json",
    "comparison.md",
    "config.toml",
    "convergence.png",
    "result.json",
)

#: Longest name of a folder; file systems take 255 bytes.
LONGEST = 100


def method_folders(labels: Sequence[str]) -> dict[str, str]:
    """A folder name for each label, all different, also where capitals do not count.

    Characters outside ASCII and signs become hyphens; a number tells labels apart that
    then are the same.
    """
    folders: dict[str, str] = {}
    taken = set(TAKEN)
    for label in labels:
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", label)[:LONGEST].strip("-.") or "method"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        folders[label] = name
    return folders
