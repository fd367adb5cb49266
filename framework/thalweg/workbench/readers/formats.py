"""The file formats; a format is recognized by the file's name."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from thalweg.errors import InputError
from thalweg.files import refuse_special_file
from thalweg.plugins import FormatSpec, Option, plugins

KEY = Option("key", str, None, "array to read, if the file holds several")
DELIMITER = Option("delimiter", str, None, "delimiter of a text table, detected by default")
HEADER = Option("header", bool, None, "whether a text table has a header, detected by default")
GRAY = Option("gray", bool, False, "read colored pictures as gray")
DISTINCT = Option("distinct", bool, False, "of a single picture, keep each color once")


FOLDER, *_FILES = (
    FormatSpec(
        name=name,
        summary=summary,
        load=f"thalweg.workbench.readers.{code}",
        pattern=pattern,
        options=options,
    )
    for name, summary, code, pattern, options in (
        ("folder", "folder of pictures, one row per picture; subfolders are labels",
         "pictures:read_folder", "", (GRAY,)),
        ("idx", "IDX, the format of MNIST, also compressed",
         "idx:read_idx", r"([-.]idx\d*([-.]ubyte)?|[-.]ubyte)(\.gz)?", ()),
        ("npy", "NumPy array, of which each rank reads its own rows",
         "numpy_files:read_npy", r"\.npy", ()),
        ("npz", "NumPy arrays under keys", "numpy_files:read_npz", r"\.npz", (KEY,)),
        ("hdf5", "HDF5 arrays, of which each rank reads its own rows (with h5py)",
         "hdf5:read_hdf5", r"\.(h5|hdf5|hdf)", (KEY,)),
        ("parquet", "Parquet table, of which each rank reads its own groups of rows (with pyarrow)",
         "parquet:read_parquet", r"\.(parquet|pq)", ()),
        ("mat", "MATLAB variables", "matlab:read_mat", r"\.mat", (KEY,)),
        ("csv", "text table: csv, tsv and the like, also compressed",
         "delimited:read_delimited", r"\.(csv|tsv|txt|dat|data)(\.gz)?", (DELIMITER, HEADER)),
        ("picture", "a single picture, one row per pixel",
         "pictures:read_picture", r"\.(png|jpe?g|bmp|gif|tiff?|pgm|ppm|webp)", (GRAY, DISTINCT)),
    )
)  # fmt: skip

#: Formats of the core, described as a plugin describes its own.
CORE: tuple[FormatSpec, ...] = (*_FILES, FOLDER)


def formats() -> list[FormatSpec]:
    """All formats, those of plugins first, which may so read more than the core does."""
    return [*plugins().specs(FormatSpec), *CORE]


def format_options() -> tuple[Option, ...]:
    """Options of ``[data]`` that only some formats have, each once."""
    found = {option.name: option for spec in formats() for option in spec.declared_options}
    return tuple(found.values())


def format_of(path: Path) -> FormatSpec:
    """Format of a file or folder.

    Raises
    ------
    InputError
        Nothing there, a file that may not be read, or a name that no format has.
    """
    try:
        found = path.exists()
        if found and not path.is_dir():
            refuse_special_file(path)
            path.open("rb").close()
    except OSError as error:  # a name that is too long, or no permission
        raise InputError(f"the data '{path}' cannot be read: {error.strerror}") from error
    if not found:
        raise InputError(f"there is no file '{path}'{_similar_names(path)}")
    if path.is_dir():
        return FOLDER
    for spec in formats():
        if spec.pattern and re.search(f"({spec.pattern})$", path.name.lower()):
            return spec
    listed = ", ".join(spec.name for spec in formats())
    raise InputError(f"the format of '{path}' is not recognized from its name; known are {listed}")


def _similar_names(path: Path) -> str:
    if not path.parent.is_dir():
        return f", nor its folder '{path.parent}'"
    names = [entry.name for entry in path.parent.iterdir()]
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
    return "; did you mean " + " or ".join(repr(name) for name in near) + "?" if near else ""
