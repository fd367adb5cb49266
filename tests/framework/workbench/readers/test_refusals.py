"""What cannot be data is refused on all ranks, in one sentence that says what to change."""

import errno
import gzip
import os
import re
import struct
import zipfile

import numpy as np
import pytest
import scipy.io
from PIL import Image

from thalweg.errors import InputError
from thalweg.parallel import Layout
from thalweg.workbench.readers import load_data
from thalweg.workbench.readers.source import FileRows, Source, local_rows

TABLE = np.arange(12.0).reshape(4, 3)
IDX = struct.pack(">BBBBII", 0, 0, 8, 2, 4, 3) + bytes(range(12))
CSV = "a,b,species\n1,2,oak\n3,4,ash\n"


@pytest.fixture
def folder(comm, folder):
    """One file of every kind, good and bad, for all ranks."""
    if comm.rank == 0:
        _fill(folder)
    comm.barrier()
    return folder


def _fill(folder):
    np.save(folder / "good.npy", TABLE)
    good = (folder / "good.npy").read_bytes()
    (folder / "short.npy").write_bytes(good[:-8])
    (folder / "wrong.npy").write_bytes(b"not an array at all")
    (folder / "bare.npy").write_bytes(b"")
    (folder / "open.npy").write_bytes(good.replace(b"False", b"Fals("))
    np.save(folder / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    np.save(folder / "empty.npy", np.zeros((0, 3)))
    np.save(folder / "complex.npy", TABLE + 1j)
    np.save(folder / "scalar.npy", np.float64(3))
    for name, value in {"nan": np.nan, "inf": -np.inf}.items():
        bad = TABLE.copy()
        bad[2, 1] = bad[3, 0] = value
        np.save(folder / f"{name}.npy", bad)
    np.save(folder / "large.npy", np.full((2, 2), 1e300))
    np.save(folder / "tiny.npy", TABLE * 1e-200)
    np.save(folder / "fractions.npy", np.array([0, 1, 0.5, 2]))
    np.save(folder / "three.npy", np.arange(3))
    for name, shape in {"negative": (-4, 3), "huge": (2**40, 3), "over": (2**62,) * 2}.items():
        (folder / f"{name}.npy").write_bytes(_npy(shape) + bytes(96))
    with zipfile.ZipFile(folder / "bomb.npz", "w") as archive:
        archive.writestr("a.npy", _npy((2**26, 1000)))
    np.savez(folder / "two.npz", points=TABLE, others=TABLE)
    stored = {"format": b"csr", "shape": (7, 3), "indptr": [0, 1, 2, 3, 3, 3, 3, 3]}
    np.savez(folder / "outside.npz", data=np.ones(3), indices=[0, 9, 1], **stored)
    fraction = {**stored, "indices": [0, 0, 0], "shape": [7.5, 3]}
    np.savez(folder / "fraction.npz", data=np.ones(3), **fraction)
    np.savez(folder / "unknown.npz", data=np.ones(3), **{**stored, "format": b"abc"})
    np.savez(folder / "objects.npz", a=np.array([None], dtype=object))
    (folder / "short.npz").write_bytes((folder / "two.npz").read_bytes()[:-40])
    vectors = np.array([[1, 7], [1, 8]], "<u4").tobytes()
    for name, content in {"cut.fvecs": vectors[:-1], "odd.ivecs": vectors[:8] + vectors[4:12],
                          "long.fbin": vectors + b"1", "bare.bvecs": b""}.items():  # fmt: skip
        (folder / name).write_bytes(content)
    (folder / "short-idx2-ubyte").write_bytes(IDX[:-3])
    (folder / "long-idx2-ubyte").write_bytes(IDX + b"1")
    (folder / "wrong-idx2-ubyte").write_bytes(b"\x89PNG" + IDX)
    (folder / "cut-idx2-ubyte.gz").write_bytes(gzip.compress(IDX)[:-6])
    (folder / "plain-idx2-ubyte.gz").write_bytes(IDX)
    (folder / "table.csv").write_text(CSV)
    (folder / "ragged.csv").write_text("1,2,3\n4,5,6\n7,8\n")
    (folder / "wide.csv").write_text("1,2\n4,5,6\n")
    (folder / "hole.csv").write_text("1,2,3\n4,,6\n")
    (folder / "header.csv").write_text("a,b\n")
    (folder / "blank.csv").write_text("\n\n")
    (folder / "few.csv").write_text("x,y\n1,2,3\n4,5,6\n")
    (folder / "many.csv").write_text("x,y,c,d\n1,2,3\n4,5,6\n")
    (folder / "twice.csv").write_text("a,a\n1,2\n3,4\n")
    grays = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    Image.fromarray(grays).save(folder / "float.tif")
    Image.fromarray((200 * grays).astype(np.int32)).save(folder / "int.tif")
    page = Image.new("L", (3, 4))
    page.save(folder / "pages.tif", save_all=True, append_images=[page])
    (folder / "bytes.csv").write_bytes(b"\xff\xfe1,2\n")
    scipy.io.savemat(folder / "cell.mat", {"c": np.array([[1, "a"]], dtype=object)})
    (folder / "wrong.mat").write_bytes(b"MATLAB 5.0 and then nothing")
    (folder / "data.xyz").write_text("1 2 3")
    (folder / "nothing").mkdir()
    (folder / "sizes").mkdir()
    Image.new("L", (3, 4)).save(folder / "sizes" / "a.png")
    Image.new("L", (4, 4)).save(folder / "sizes" / "b.png")
    (folder / "gone" / "x").mkdir(parents=True)
    Image.new("L", (3, 4)).save(folder / "gone" / "x" / "a.png")
    (folder / "gone" / "y").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.npy")
    os.mkfifo(folder / "pipe.csv")
    (folder / "zeros.csv").symlink_to("/dev/zero")
    (folder / "broken").mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (32, 32), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "broken" / "a.png")
    (folder / "broken" / "a.png").write_bytes((folder / "broken" / "a.png").read_bytes()[:600])


def _npy(shape):
    header = repr({"descr": "<f8", "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


CASES = [
    ({}, "neither 'path' nor 'name'"),
    ({"path": "good.npy", "name": "iris"}, "both 'path' and 'name'"),
    ({"path": "god.npy"}, "there is no file .*god.npy'; did you mean 'good.npy'"),
    ({"path": "no/where.npy"}, "nor its folder"),
    ({"path": 3}, "'path' of section .data. must be a string, not 3"),
    ({"path": "short.npy"}, "is damaged, or not an npy file"),
    ({"path": "wrong.npy"}, "is damaged, or not an npy file"),
    ({"path": "open.npy"}, "is damaged, or not an npy file"),
    ({"path": "bare.npy"}, "is damaged, or not an npy file"),
    ({"path": "objects.npy"}, "not an npy file of numbers: .*Python objects"),
    ({"path": "objects.npz"}, "not an npz file of numbers: Object arrays"),
    ({"path": "outside.npz"}, "is damaged, or not an npz file"),
    ({"path": "fraction.npz"}, "is damaged, or not an npz file"),
    ({"path": "unknown.npz"}, "is damaged, or not an npz file"),
    ({"path": "empty.npy"}, "empty"),
    ({"path": "negative.npy"}, "is damaged, or not an npy file"),
    ({"path": "huge.npy"}, "is damaged, or not an npy file"),
    ({"path": "over.npy"}, "is damaged, or not an npy file"),
    ({"path": "bomb.npz"}, "is damaged, or not an npz file"),
    ({"path": "nul\0l.npy"}, "null characters"),
    ({"path": "complex.npy"}, "complex numbers, not real numbers"),
    ({"path": "scalar.npy"}, "single number"),
    ({"path": "nan.npy"}, r"nan in row 2, column 1 \(both counted from 0\)"),
    ({"path": "inf.npy"}, r"-inf in row 2, column 1"),
    ({"path": "large.npy", "dtype": "float32"}, r"inf in row 0, column 0"),
    ({"path": "large.npy"}, r"too large to square; scale the data, .* value is 1e\+300"),
    ({"path": "large.npy", "components": 1}, "too large to square"),
    ({"path": "tiny.npy"}, r"too small to square; scale the data, .* value is 1.1e-199"),
    ({"path": "tiny.npy", "dtype": "float32"}, "too small to square"),
    ({"path": "good.npy", "labels": "three.npy"}, "'good.npy' has 4 rows, but 3 labels"),
    ({"path": "good.npy", "labels": "fractions.npy"}, "row 2 .*has 0.5"),
    ({"path": "good.npy", "labels": "there.npy"}, "neither a file nor a column"),
    ({"path": "good.npy", "labels": "good.npy"}, "3 columns of other values"),
    ({"path": "good.npy", "labels": 1}, "is not a text table"),
    ({"path": "good.npy", "labels": 1.5}, "a string or a column number"),
    ({"path": "good.npy", "rows": 5}, "'rows' of .data. is 5, but 'good.npy' has 4 rows"),
    ({"path": "good.npy", "rows": 0}, "must be at least 1"),
    ({"path": "good.npy", "columns": [3]}, "its columns are 0 to 2"),
    ({"path": "good.npy", "columns": [1, 1]}, "a list of different column numbers"),
    ({"path": "good.npy", "columns": []}, "a list of different column numbers"),
    ({"path": "good.npy", "components": 4}, "have at most 3"),
    ({"path": "good.npy", "scale": "standart"}, "did you mean 'standard'"),
    ({"path": "good.npy", "scael": "unit"}, "no option 'scael'; did you mean 'scale'"),
    ({"path": "good.npy", "delimiter": ","}, "'delimiter' .* has no meaning for 'good.npy'"),
    ({"path": "two.npz"}, "choose one by 'key': others, points"),
    ({"path": "two.npz", "key": "point"}, "no array 'point'; did you mean 'points'"),
    ({"path": "short.npz"}, "damaged"),
    ({"path": "cut.fvecs"}, "declare rows of 1 numbers, which do not fill its 15 bytes"),
    ({"path": "odd.ivecs"}, "rows of different length, or is damaged"),
    ({"path": "long.fbin"}, "declare rows of 7 numbers, which do not fill its 17 bytes"),
    ({"path": "bare.bvecs"}, "is empty: its shape is 0 x 0"),
    ({"path": "short-idx2-ubyte"}, "truncated: its header declares 4 x 3 numbers, 12 bytes, but 9"),
    ({"path": "long-idx2-ubyte"}, "too long"),
    ({"path": "wrong-idx2-ubyte"}, "not an IDX file: it begins with bytes 89 50 4e 47"),
    ({"path": "cut-idx2-ubyte.gz"}, "damaged or truncated"),
    ({"path": "plain-idx2-ubyte.gz"}, "damaged or truncated"),
    ({"path": "table.csv"}, r"row 0 .* has the string 'oak' in column 2 \('species'\)"),
    ({"path": "table.csv", "labels": "spices"}, "neither a file nor a column"),
    ({"path": "table.csv", "columns": ["c"]}, "no column 'c'"),
    ({"path": "table.csv", "columns": [0, 2], "labels": "species"}, "has that of the labels"),
    ({"path": "few.csv"}, "the header of .* has 2 names, its first row 3 fields"),
    ({"path": "many.csv", "labels": "d"}, "has 4 names, its first row 3 fields"),
    ({"path": "twice.csv", "labels": "a"}, "several columns named 'a'; give its number"),
    ({"path": "twice.csv", "columns": [0, -2]}, "has a column of .* twice"),
    ({"path": "good.npy", "columns": [0, -3]}, "has a column of 'good.npy' twice"),
    ({"path": "float.tif"}, "has pixels of 32 bits"),
    ({"path": "int.tif"}, "has pixels of 32 bits"),
    ({"path": "pages.tif"}, "has 2 pages"),
    ({"path": "ragged.csv"}, "row 2 .* has 2 fields, the first has 3"),
    ({"path": "wide.csv"}, "row 1 .* has 3 fields, the first has 2"),
    ({"path": "hole.csv"}, "row 1 .* has nothing in column 1"),
    ({"path": "header.csv", "header": True}, "has a header but no rows"),
    ({"path": "blank.csv"}, "is empty"),
    ({"path": "bytes.csv"}, "not text in UTF-8"),
    ({"path": "cell.mat"}, "cell array"),
    ({"path": "wrong.mat"}, "not a mat file"),
    ({"path": "data.xyz"}, "is not recognized from its name"),
    ({"path": "nothing"}, "holds no pictures"),
    ({"path": "sizes", "grey": True}, "has no option 'grey'; did you mean 'gray'"),
    ({"path": "sizes"}, "'a.png' has 3 x 4 pixels, 'b.png' has 4 x 4"),
    ({"path": "gone"}, "gone/y' cannot be read: No such file"),
    ({"path": "pipe.npy"}, "pipe.npy' is a pipe or a device; give a file"),
    ({"path": "pipe.csv"}, "pipe or a device"),
    ({"path": "zeros.csv"}, "pipe or a device"),
    ({"path": "good.npy", "labels": "pipe.csv"}, "pipe or a device"),
    ({"path": "broken"}, "damaged or truncated"),
    ({"name": "digit"}, "no data set is called 'digit'; did you mean 'digits'"),
    ({"name": "openml:"}, "openml:NAME"),
    ({"name": "iris", "labels": "y.npy"}, "has its own"),
    ({"name": "iris", "rows": 151}, "has 150 rows"),
    ({"name": "iris", "clusters": 3}, "no option 'clusters'"),
    ({"name": "blobs", "clusters": 0}, "must be at least 1"),
]


@pytest.mark.ranks(1, 3)
def test_bad_input_is_refused_in_one_sentence(comm, folder):
    for section, words in CASES:
        try:
            load_data(section, comm, folder)
        except InputError as error:
            text = str(error)
        else:
            pytest.fail(f"{section} was accepted")
        assert re.search(words, text), f"{section}: {text}"
        assert "\n" not in text
        # Every rank refuses, with the same words: the next call would hang otherwise.
        assert len(set(comm.allgather(text))) == 1


@pytest.mark.ranks(1, 2)
def test_hdf5_and_parquet_files_that_are_no_tables_of_numbers(comm, folder):
    h5py = pytest.importorskip("h5py")
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for ending in ("h5", "parquet"):
        (folder / f"wrong.{ending}").write_bytes(b"nothing of the kind")
    if comm.rank == 0:
        with h5py.File(folder / "two.h5", "w") as file:
            file["a/x"], file["y"], file["z"] = np.eye(3), np.arange(3), np.arange(3) * 1j
            file.create_dataset("huge", (10**12, 1000), dtype="f8", chunks=(1024, 1000))
        words = pyarrow.table({"n": [1.0, 2.0], "word": ["oak", "elm"]})
        parquet.write_table(words, folder / "words.parquet")
        _hdf5_files(folder, h5py)
    comm.Barrier()
    for section, match in (
        ({"path": "wrong.h5"}, "damaged, or not an HDF5 file"),
        ({"path": "two.h5"}, "choose one by 'key': a/x, huge, y, z"),
        ({"path": "two.h5", "key": "a/y"}, "no array 'a/y'; did you mean"),
        ({"path": "two.h5", "key": "z"}, "complex numbers"),
        ({"path": "two.h5", "key": "huge"}, "use more ranks"),
        ({"path": "wrong.parquet"}, "damaged, or not a Parquet file"),
        ({"path": "words.parquet"}, "column 'word' .* type string, not real numbers; make it the"),
        ({"path": "words.parquet", "columns": ["m"]}, "no column 'm'"),
        ({"path": "words.parquet", "labels": "ward"}, "neither a file nor a column.*'word'"),
        ({"path": "part.h5", "key": "e"}, "numbers in another file"),
        ({"path": "part.h5", "key": "x", "labels": "e"}, "numbers in another file"),
        ({"path": "virtual.h5"}, "array '/x' of .*numbers in another file"),
        ({"path": "linked.mat", "key": "a"}, "no array 'a'"),
        ({"path": "linked.mat", "key": "e"}, "numbers in another file"),
    ):
        with pytest.raises(InputError, match=match):
            load_data(section, comm, folder)


def _hdf5_files(folder, h5py):
    """Arrays whose numbers are elsewhere, in files of HDF5 and of MATLAB's."""
    (folder / "secret.txt").write_bytes(bytes(96))
    with h5py.File(folder / "part.h5", "w") as file:
        file["x"] = TABLE
        file.create_dataset("e", (4, 3), "f8", external=[(str(folder / "secret.txt"), 0, 96)])
    layout = h5py.VirtualLayout((4, 3), "f8")
    layout[:] = h5py.VirtualSource("part.h5", "x", (4, 3))
    with h5py.File(folder / "virtual.h5", "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=3)
    with h5py.File(folder / "linked.mat", "w", userblock_size=512) as file:
        file["a"] = h5py.ExternalLink("part.h5", "x")
        file.create_dataset("e", (4, 3), "f8", external=[(str(folder / "secret.txt"), 0, 96)])
    with open(folder / "linked.mat", "r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file")


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("part", ["", "x", "x/y"])
def test_a_folder_that_may_not_be_read_is_named(comm, folder, monkeypatch, part):
    closed = folder / "pictures" / part
    if comm.rank == 0:
        (folder / "pictures/x/y").mkdir(parents=True)
        for place in ("z", "x/y"):
            (folder / "pictures" / place).mkdir(exist_ok=True)
            Image.new("L", (3, 4)).save(folder / "pictures" / place / "a.png")
    comm.Barrier()

    def listing(real):
        def allowed(path="."):
            if os.fspath(path) == str(closed):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return real(path)

        return allowed

    # The superuser may read everything.
    monkeypatch.setattr(os, "listdir", listing(os.listdir))
    monkeypatch.setattr(os, "scandir", listing(os.scandir))
    with pytest.raises(InputError, match=f"'{closed}' cannot be read: Permission denied"):
        load_data({"path": "pictures"}, comm, folder)


def test_links_to_folders_of_pictures_are_followed_once(comm, folder):
    Image.new("L", (3, 4)).save(folder / "nothing" / "a.png")
    (folder / "linked" / "y").mkdir(parents=True)
    (folder / "linked" / "x").symlink_to(folder / "nothing")
    (folder / "linked" / "y" / "above").symlink_to(folder / "linked")
    dataset = load_data({"path": "linked"}, comm, folder)
    assert (dataset.values.shape, dataset.label_names) == ((1, 12), ("x",))


@pytest.mark.ranks(2, 3)
def test_a_file_that_only_one_rank_cannot_read_stops_all(comm, folder):
    class Vanishing(FileRows):
        def __call__(self, rows):
            raise OSError("no such file on this machine")

    kind = Vanishing if comm.rank == comm.size - 1 else FileRows
    reader = kind(folder / "good.npy", 128, np.dtype(float), (4, 3))
    source = Source(4, (3,), np.dtype(float), reader=reader)
    with pytest.raises(InputError, match="no such file on this machine"):
        local_rows(source, None, Layout(comm, 4, 3), None)
