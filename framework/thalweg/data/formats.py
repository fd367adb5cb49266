"""The file formats, each with its reader; a format is told by the file's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thalweg.data.delimited import read_delimited
from thalweg.data.idx import read_idx
from thalweg.data.matlab import read_mat
from thalweg.data.numpy_files import read_npy, read_npz
from thalweg.data.options import DELIMITER, DISTINCT, GREY, HEADER, KEY
from thalweg.data.pictures import ENDINGS, read_folder, read_picture
from thalweg.data.source import Source
from thalweg.errors import InputError
from thalweg.plugins import Option


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes
    ----------
    name
        For messages.
    pattern
        Regular expression that the lower-case file name ends with.
    read
        Called on rank 0 as ``read(path, options) -> Source``.
    options
        Options of ``[data]`` that only some formats have, and this one does.
    """

    name: str
    pattern: str
    read: Callable[[Path, Mapping[str, Any]], Source]
    options: tuple[Option, ...] = ()


FOLDER = Format("folder of pictures", "", read_folder, (GREY,))

FORMATS: tuple[Format, ...] = (
    Format("IDX", r"([-.]idx\d*([-.]ubyte)?|[-.]ubyte)(\.gz)?", read_idx),
    Format(".npy", r"\.npy", read_npy),
    Format(".npz", r"\.npz", read_npz, (KEY,)),
    Format(".mat", r"\.mat", read_mat, (KEY,)),
    Format(".csv", r"\.(csv|tsv|txt|dat|data)(\.gz)?", read_delimited, (DELIMITER, HEADER)),
    Format(
        "picture",
        "(" + "|".join(re.escape(ending) for ending in ENDINGS) + ")",
        read_picture,
        (GREY, DISTINCT),
    ),
)


def format_of(path: Path) -> Format:
    """Format of a file or folder.

    Raises
    ------
    InputError
        Nothing there, or a name that no format has.
    """
    try:
        found = path.exists()
    except OSError as error:  # a name that is too long, a folder that may not be searched
        raise InputError(f"the data '{path}' cannot be read: {error.strerror}") from error
    if not found:
        raise InputError(f"there is no file '{path}'{_similar_names(path)}")
    if path.is_dir():
        return FOLDER
    for candidate in FORMATS:
        if re.search(candidate.pattern + "$", path.name.lower()):
            return candidate
    raise InputError(
        f"the kind of '{path}' cannot be told from its name; known are .npy, .npz, .csv, .tsv, "
        f".txt, .mat, idx-ubyte, the last also with .gz, pictures, and folders of pictures"
    )


def _similar_names(path: Path) -> str:
    import difflib

    if not path.parent.is_dir():
        return f", nor its folder '{path.parent}'"
    names = [entry.name for entry in path.parent.iterdir()]
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
    return "; did you mean " + " or ".join(repr(name) for name in near) + "?" if near else ""
