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

FOLDER = FormatSpec(
    name="folder",
    summary="folder of pictures, one row per picture; subfolders are labels",
    load="thalweg.data.pictures:read_folder",
    pattern="",
    options=(GRAY,),
)

#: Formats of the core, described as a plugin describes its own.
CORE: tuple[FormatSpec, ...] = (
    FormatSpec(
        name="idx",
        summary="IDX, the format of MNIST, also compressed",
        load="thalweg.data.idx:read_idx",
        pattern=r"([-.]idx\d*([-.]ubyte)?|[-.]ubyte)(\.gz)?",
    ),
    FormatSpec(
        name="npy",
        summary="NumPy array, of which each rank reads its own rows",
        load="thalweg.data.numpy_files:read_npy",
        pattern=r"\.npy",
    ),
    FormatSpec(
        name="npz",
        summary="NumPy arrays under keys",
        load="thalweg.data.numpy_files:read_npz",
        pattern=r"\.npz",
        options=(KEY,),
    ),
    FormatSpec(
        name="hdf5",
        summary="HDF5 arrays, of which each rank reads its own rows (with h5py)",
        load="thalweg.data.hdf5:read_hdf5",
        pattern=r"\.(h5|hdf5|hdf)",
        options=(KEY,),
    ),
    FormatSpec(
        name="parquet",
        summary="Parquet table, of which each rank reads its own groups of rows (with pyarrow)",
        load="thalweg.data.parquet:read_parquet",
        pattern=r"\.(parquet|pq)",
    ),
    FormatSpec(
        name="mat",
        summary="MATLAB variables",
        load="thalweg.data.matlab:read_mat",
        pattern=r"\.mat",
        options=(KEY,),
    ),
    FormatSpec(
        name="csv",
        summary="text table: csv, tsv and the like, also compressed",
        load="thalweg.data.delimited:read_delimited",
        pattern=r"\.(csv|tsv|txt|dat|data)(\.gz)?",
        options=(DELIMITER, HEADER),
    ),
    FormatSpec(
        name="picture",
        summary="a single picture, one row per pixel",
        load="thalweg.data.pictures:read_picture",
        pattern=r"\.(png|jpe?g|bmp|gif|tiff?|pgm|ppm|webp)",
        options=(GRAY, DISTINCT),
    ),
    FOLDER,
)


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
