"""The file formats, recognized by a file's name, and files of labels."""

import difflib
import re
from pathlib import Path

import numpy as np

from thalweg.data.entries import encode_labels, mark_unknown
from thalweg.errors import InputError
from thalweg.files import refuse_special_file
from thalweg.parallel import MPI, on_root
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
         "array_files:read_idx", r"([-.]idx\d*([-.]ubyte)?|[-.]ubyte)(\.gz)?", ()),
        ("npy", "NumPy array, of which each rank reads its own rows",
         "array_files:read_npy", r"\.npy", ()),
        ("vectors", "vectors of SIFT, DEEP and the like, of which each rank reads its own",
         "array_files:read_vectors", r"\.([fbi]vecs|(f|u8|i8)bin)", ()),
        ("npz", "NumPy arrays under keys", "array_files:read_npz", r"\.npz", (KEY,)),
        ("hdf5", "HDF5 arrays, of which each rank reads its own rows (with h5py)",
         "chunked_arrays:read_hdf5", r"\.(h5|hdf5|hdf|h5ad)", (KEY,)),
        ("zarr", "Zarr arrays, of which each rank reads its own rows (with zarr)",
         "chunked_arrays:read_zarr", r"\.zarr", (KEY,)),
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
    return tuple({one.name: one for spec in formats() for one in spec.declared_options}.values())


def format_of(path: Path) -> FormatSpec:
    """Format of a file or folder; refused is one that is missing or may not be read."""
    try:
        exists = path.exists()
        if exists and not path.is_dir():
            refuse_special_file(path)
            path.open("rb").close()
    except OSError as error:  # a name that is too long, or no permission
        raise InputError(f"the data '{path}' cannot be read: {error.strerror}") from error
    if not exists and not path.parent.is_dir():
        raise InputError(f"there is no file '{path}', nor its folder '{path.parent}'")
    if not exists:
        names = [entry.name for entry in path.parent.iterdir()]
        near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
        hint = "; did you mean " + " or ".join(map(repr, near)) + "?" if near else ""
        raise InputError(f"there is no file '{path}'{hint}")
    if path.is_dir() and path.suffix.lower() != ".zarr":
        return FOLDER
    for spec in formats():
        if spec.pattern and re.search(f"({spec.pattern})$", path.name.lower()):
            return spec
    listed = ", ".join(spec.name for spec in formats())
    raise InputError(f"the format of '{path}' is not recognized from its name; known are {listed}")


def read_labels(
    path: Path | str, comm: MPI.Comm = MPI.COMM_SELF, unknown: bool = False
) -> np.ndarray:
    """Labels of every row, integers from 0, on every rank.  Collective.

    Parameters
    ----------
    path
        File of numbers or strings, one per row, or of a one-hot table.
    unknown
        Whether -1 or an empty string marks a row without a label, which gets -1.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    InputError
        On all ranks: a file that is missing or damaged, or holds no labels.
    """
    file = Path(path).expanduser()
    read = on_root(comm, lambda: encode_labels(raw_labels(file), f"the labels of '{file}'"))
    return mark_unknown(*read) if unknown else read[0]


def raw_labels(file: Path, key: str | None = None) -> np.ndarray:
    """Content of the file, a label or a one-hot row each; ``key`` chooses among arrays."""
    source = format_of(file).resolve()(file, {"key": key, "is_text": True})
    if source.whole is not None:
        return source.whole
    assert source.reader is not None
    return source.reader(slice(None))
