"""Files of every kind, and named sets, come out as the same rows at any number of ranks."""

import gzip
import struct
import sys
from types import ModuleType

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from PIL import Image

from thalweg.errors import InputError
from thalweg.parallel import MPI
from thalweg.plugins import FormatSpec, Option
from thalweg.workbench.readers import Source, data_options, data_sets, load_data, read_labels
from thalweg.workbench.readers.formats import CORE
from thalweg.workbench.readers.load import data_shape

TABLE = np.arange(21.0).reshape(7, 3) ** 2 / 8
NAMES = np.array(["ash", "oak", "oak", "elm", "ash", "oak", "elm"])
CODES = np.array([0, 2, 2, 1, 0, 2, 1])


def write(comm, action):
    if comm.rank == 0:
        action()
    comm.barrier()


def idx_bytes(array, code):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def whole(dataset):
    return dataset.layout.gather_rows(dataset.values)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    ("form", "kind"),
    [("C", "<f8"), ("F", "<f8"), ("fvecs", "<f4"), ("bvecs", "u1"), ("ivecs", "<i4"),
     ("fbin", "<f4"), ("u8bin", "u1"), ("i8bin", "i1")],
)  # fmt: skip
def test_each_rank_reads_its_rows_of_an_array(comm, folder, form, kind):
    table, path = (TABLE if kind == "<f4" else TABLE.round() - 9).astype(kind), f"x.{form}"
    before = struct.pack("<I", 3) if "vecs" in form else b""
    content = b"".join(before + row.tobytes() for row in table)
    content = struct.pack("<II", 7, 3) + content if "bin" in form else content
    write(comm, lambda: (folder / path).write_bytes(content))
    if path in ("x.C", "x.F"):
        path = "x.npy"
        write(comm, lambda: np.save(folder / path, np.asarray(table, order=form)))
    dataset = load_data({"path": path}, comm, folder)
    layout = dataset.layout
    assert np.array_equal(dataset.values, table[layout.start : layout.stop])
    assert dataset.values.flags.c_contiguous
    assert dataset.values.dtype == np.float64
    sample = load_data({"path": path, "rows": 4, "sample": True}, comm, folder)
    chosen = np.sort(np.random.default_rng(0).choice(7, 4, replace=False))
    assert np.array_equal(whole(sample), table[chosen])


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("kind", [bytes, str])  # other writers than SciPy give a string
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_a_sparse_matrix_of_scipy_is_read_as_its_rows(comm, folder, form, kind):
    matrix = scipy.sparse.csr_matrix(np.maximum(TABLE - TABLE.mean(), 0.0)).asformat(form)
    write(comm, lambda: scipy.sparse.save_npz(folder / "b.npz", matrix))
    parts = np.load(folder / "b.npz")
    parts = {name: parts[name] for name in parts}
    parts["format"] = parts["format"].astype(kind)
    write(comm, lambda: np.savez(folder / "x.npz", **parts))
    dataset = load_data({"path": "x.npz", "rows": 5}, comm, folder)
    assert np.array_equal(whole(dataset), matrix.toarray()[:5])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_with_labels(comm, folder, suffix):
    images = np.arange(7 * 4, dtype=np.uint8).reshape(7, 2, 2)
    opener = gzip.open if suffix else open

    def make():
        with opener(folder / f"a-images-idx3-ubyte{suffix}", "wb") as stream:
            stream.write(idx_bytes(images, 0x08))
        with opener(folder / f"a-labels-idx1-ubyte{suffix}", "wb") as stream:
            stream.write(idx_bytes(CODES.astype(np.uint8), 0x08))

    write(comm, make)
    section = {
        "path": f"a-images-idx3-ubyte{suffix}",
        "labels": f"a-labels-idx1-ubyte{suffix}",
        "dtype": "float32",
    }
    dataset = load_data(section, comm, folder)
    assert np.array_equal(whole(dataset), images.reshape(7, 4).astype(np.float32))
    assert dataset.image_shape == (2, 2)
    assert np.array_equal(dataset.gather_labels(), CODES)
    assert dataset.label_names is None


@pytest.mark.ranks(1, 2)
def test_csv_with_a_header_names_columns_and_labels(comm, folder):
    lines = ['a; "b\n(mm)";c;species'] + [
        ";".join([*map(repr, map(float, row)), name])
        for row, name in zip(TABLE, NAMES, strict=True)
    ]
    write(comm, lambda: (folder / "x.csv").write_text("\n".join(lines) + "\n"))
    dataset = load_data({"path": "x.csv", "labels": "species"}, comm, folder)
    assert np.array_equal(whole(dataset), TABLE)
    assert np.array_equal(dataset.gather_labels(), CODES)
    assert "header" in dataset.notes[0]
    chosen = load_data({"path": "x.csv", "columns": ["c", 0], "labels": -1}, comm, folder)
    assert np.array_equal(whole(chosen), TABLE[:, [2, 0]])
    for lines[0], labels in ("0;1;2;3", 3), ("0;1;2;kind", -1), ("0;1;3;kind", "kind"):
        write(comm, lambda: (folder / "y.csv").write_text("\n".join(lines) + "\n"))
        found = load_data({"path": "y.csv", "labels": labels}, comm, folder)
        assert np.array_equal(whole(found), TABLE)
    waves, squares, other = range(400, 490, 10), np.arange(2, 11) ** 2, [3, 1] * 4 + [2]
    for first, below, rows in (waves, other, 1), (waves, range(9), 2), (squares, other, 2):
        text = "\n".join(f"{','.join(map(str, row))},kind" for row in (first, below))
        write(comm, lambda text=text: (folder / "z.csv").write_text(text))
        assert load_data({"path": "z.csv", "labels": -1}, comm, folder).layout.rows == rows


def test_one_hot_labels_and_labels_with_gaps(comm, folder):
    np.save(folder / "x.npy", TABLE)
    np.savetxt(folder / "hot.csv", np.eye(3)[CODES], delimiter=",", fmt="%d")
    np.savetxt(folder / "hot.txt", np.eye(3)[CODES], fmt="%d")
    np.savetxt(folder / "words.txt", [f"class {code}" for code in CODES], fmt="%s")
    np.save(folder / "gaps.npy", CODES * 10.0)
    for name in ("hot.csv", "hot.txt", "words.txt"):
        labeled = load_data({"path": "x.npy", "labels": name}, comm, folder)
        assert np.array_equal(labeled.gather_labels(), CODES)
    gaps = load_data({"path": "x.npy", "labels": "gaps.npy"}, comm, folder)
    assert np.array_equal(gaps.gather_labels(), CODES)
    assert gaps.label_names == ("0", "10", "20")


def test_labels_that_no_float_tells_apart_stay_apart(comm, folder):
    write(comm, lambda: (folder / "x.csv").write_text(f"a,l\n1,{2**53 + 1}\n2,{2**53}\n"))
    dataset = load_data({"path": "x.csv", "labels": "l"}, comm, folder)
    assert dataset.gather_labels().tolist() == [1, 0]
    assert dataset.label_names == (str(2**53), str(2**53 + 1))
    write(comm, lambda: (folder / "l.txt").write_text(f"{2**53 + 1}\n{2**53}\n"))
    listed = load_data({"path": "x.csv", "columns": ["a"], "labels": "l.txt"}, comm, folder)
    assert listed.gather_labels().tolist() == [1, 0]
    write(comm, lambda: np.savez(folder / "x.npz", X=TABLE[:2], y=np.array([2**64 - 1, 3], "u8")))
    dataset = load_data({"path": "x.npz", "labels": "y"}, comm, folder)
    assert dataset.label_names == ("3", str(2**64 - 1))


@pytest.mark.ranks(1, 2, 3)
def test_integers_that_no_float_tells_apart_are_refused(comm, folder):
    table = np.array([[1, 2], [2**53, 4], [5, 2**53 + 1], [2**57 + 1, 0]])
    write(comm, lambda: np.save(folder / "x.npy", table))
    write(comm, lambda: np.savetxt(folder / "x.csv", table, fmt="%d", delimiter=",", header="a"))
    match = "'x.npy' has 9007199254740993 in row 2, column 1 .* which float64 rounds; subtract"
    with pytest.raises(InputError, match=match):
        load_data({"path": "x.npy"}, comm, folder)
    with pytest.raises(InputError, match=r"row 2 of .*csv' .* 9007199254740993 in column 1, wh"):
        load_data({"path": "x.csv"}, comm, folder)
    assert whole(load_data({"path": "x.npy", "rows": 2}, comm, folder))[1, 0] == 2**53
    text = f"1,{2**53}\n2,12345678901234567000\n3,1e30\n"
    write(comm, lambda: (folder / "x.csv").write_text(text))
    assert whole(load_data({"path": "x.csv"}, comm, folder))[1, 1] == 12345678901234567000.0
    wanted = load_data({"path": "x.npy", "dtype": "float32"}, comm, folder)
    assert np.array_equal(whole(wanted), table.astype(np.float32))


@pytest.mark.ranks(1, 2)
def test_integers_that_a_mixed_parquet_table_would_round_are_refused(comm, folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"n": [1, 2, 2**53 + 1], "z": [0.5, 1.0, 1.5]})
    write(comm, lambda: parquet.write_table(table, folder / "x.parquet", row_group_size=2))
    with pytest.raises(InputError, match=r"column 'n' .* has 9007199254740993, which float64 r"):
        load_data({"path": "x.parquet"}, comm, folder)


def test_lines_within_quotes_belong_to_the_field(comm, folder):
    text = '# made "up\n\na,l,b\n1,"x\n\n# no remark\n#,",4\n\n# so\n2,"5"" disk",5\n\n3,y,6\n'
    write(comm, lambda: (folder / "x.csv").write_text(text))
    dataset = load_data({"path": "x.csv", "labels": "l"}, comm, folder)
    assert np.array_equal(whole(dataset), [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
    assert dataset.label_names == ('5" disk', "x\n\n# no remark\n#,", "y")
    assert dataset.notes[1:] == ("lines of 'x.csv' that begin with # were left out: 2",)
    numbers = load_data({"path": "x.csv", "columns": ["a"]}, comm, folder)
    assert np.array_equal(whole(numbers), [[1.0], [2.0], [3.0]])


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_delimiter_in_a_quoted_label_after_a_blank_shifts_no_column(comm, folder, delimiter):
    (folder / "x.csv").write_text('a;l;b\n1.5; "two;7;8";2.5\n1.6; x;2.6\n'.replace(";", delimiter))
    dataset = load_data({"path": "x.csv", "labels": "l"}, comm, folder)
    assert dataset.values.tolist() == [[1.5, 2.5], [1.6, 2.6]]


def test_texts_that_are_one_number_to_a_program_are_labels_of_their_own(comm, folder):
    texts = ["1_1", "11", "1E1", "10", "01", "1"]
    (folder / "x.csv").write_text("".join(f"{n},{text}\n" for n, text in enumerate(texts)))
    dataset = load_data({"path": "x.csv", "labels": 1}, comm, folder)
    assert len(set(dataset.labels)) == 6
    assert [dataset.label_names[label] for label in dataset.labels] == texts
    np.savez(folder / "x.npz", X=TABLE[:2], y=np.array([b"\xff", b"\xfe"]))
    dataset = load_data({"path": "x.npz", "key": "X", "labels": "y"}, comm, folder)
    assert dataset.labels.tolist() == [1, 0]


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("options", [{}, {"rows": 4, "sample": True}])
def test_each_rank_reads_its_rows_of_an_hdf5_file(comm, folder, options):
    h5py = pytest.importorskip("h5py")

    def make():
        with h5py.File(folder / "x.h5", "w") as file:
            file.create_dataset("points/x", data=TABLE, chunks=(2, 3), compression="gzip")
            file["y"] = NAMES.astype(object)

    write(comm, make)
    dataset = load_data({"path": "x.h5", "labels": "y", **options}, comm, folder)
    write(comm, lambda: np.save(folder / "x.npy", TABLE))
    np.save(folder / f"{comm.rank}.npy", TABLE)
    np.savetxt(folder / f"{comm.rank}.txt", NAMES, fmt="%s")
    files = {"path": f"{comm.rank}.npy", "labels": f"{comm.rank}.txt", **options}
    wanted = load_data(files, MPI.COMM_SELF, folder)
    assert np.array_equal(whole(dataset), wanted.values)
    assert dataset.label_names == wanted.label_names
    assert np.array_equal(dataset.gather_labels(), wanted.labels)
    assert data_shape({"path": "x.h5", "key": "points/x"}, folder) == TABLE.shape
    named = load_data({"path": "x.npy", "labels": "x.h5", "labels_key": "y"}, comm, folder)
    assert np.array_equal(named.gather_labels(), np.unique(NAMES, return_inverse=True)[1])


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("version", [2, 3])
def test_each_rank_reads_its_rows_of_zarr_and_unpickles_nothing(comm, folder, version):
    zarr, data = pytest.importorskip("zarr"), {"path": "x.zarr", "labels": "y", "rows": 4}

    def make():
        group = zarr.open_group(folder / "x.zarr", mode="w", zarr_format=version)
        group.create_array("points/x", data=TABLE, chunks=(2, 3)).attrs["kept"] = "not as pickle"
        group.create_array("y", data=np.arange(7))
        codec = [pytest.importorskip("numcodecs").Pickle()]
        zarr.create_array(folder / "o.zarr", data=CODES, zarr_format=2, filters=codec)

    write(comm, make)
    dataset = load_data({**data, "sample": True}, comm, folder)
    assert np.array_equal(whole(dataset), TABLE[[*map(int, dataset.label_names)]])
    assert memoryview(dataset.values).format == "d"  # as mpi4py knows it; that of Zarr is "<d"
    with pytest.raises(InputError, match=r"unpickled|no Zarr"):
        load_data({"path": "o.zarr"}, comm, folder)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(
    ("key", "form", "column"),
    [
        ("obsm/X_pca", "dense", "categories"),
        ("obsm/X_pca", "csr", "nullable"),
        ("X", "dense", "old"),
        ("X", "csr", "categories"),
        ("X", "csc", "categories"),
    ],
)
def test_annotated_data_are_read_with_a_column_of_their_cells(comm, folder, key, form, column):
    h5py = pytest.importorskip("h5py")
    names, codes = np.unique(NAMES, return_inverse=True)
    codes[3] = -1  # of no category

    def make():
        with h5py.File(folder / "x.h5ad", "w") as file:
            file["obs/_index"] = NAMES.astype(object)
            if form.startswith("cs"):  # of halves, which SciPy does not take
                matrix = scipy.sparse.csr_matrix(TABLE).asformat(form)
                for part in ("indices", "indptr"):
                    file[f"{key}/{part}"] = getattr(matrix, part)
                file[f"{key}/data"] = matrix.data.astype(np.float16)
                file[key].attrs.update({"encoding-type": f"{form}_matrix", "shape": TABLE.shape})
            else:
                file[key] = TABLE
            if key != "X":
                file["X"] = TABLE[:, :2]
            if column == "old":
                file["obs/kind"], file["obs/__categories/kind"] = codes, names.astype(object)
                file["obs/kind"].attrs["categories"] = file["obs/__categories/kind"].ref
            elif column == "nullable":
                file["obs/kind/values"], file["obs/kind/mask"] = NAMES.astype(object), codes < 0
            else:
                file["obs/kind/categories"], file["obs/kind/codes"] = names.astype(object), codes

    write(comm, make)
    dataset = load_data({"path": "x.h5ad", "labels": "kind"}, comm, folder)
    assert np.array_equal(whole(dataset), TABLE)
    assert dataset.label_names == ("", *names)
    partial = dataset.layout.gather_rows(dataset.partial_labels())
    assert np.array_equal(partial, codes + (codes >= 0))
    assert load_data({"path": "x.h5ad"}, comm, folder).labels is None
    for code in (-2, len(names)) if column != "nullable" else ():
        codes[3] = code
        write(comm, make)
        with pytest.raises(InputError, match="damaged"):
            load_data({"path": "x.h5ad", "labels": "kind"}, comm, folder)


def test_other_attributes_of_the_name_categories_change_nothing(folder):
    with pytest.importorskip("h5py").File(folder / "x.h5", "w") as file:
        file["x"], file["y"] = TABLE, NAMES.astype(object)
        file["y"].attrs["categories"] = "trees of a park"
    dataset = load_data({"path": "x.h5", "key": "x", "labels": "y"}, folder=folder)
    assert np.array_equal(np.array(dataset.label_names)[dataset.gather_labels()], NAMES)


@pytest.mark.ranks(1, 2, 3)
def test_each_rank_reads_its_groups_of_rows_of_a_parquet_table(comm, folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def make():
        vectors = pyarrow.FixedSizeListArray.from_arrays(TABLE[:, :2].ravel(), 2)
        columns = {"v": vectors, "n": CODES.astype(np.uint8), "z": TABLE[:, 2], "tree": NAMES}
        table = pyarrow.table({**columns, "__index_level_0__": CODES})
        parquet.write_table(table, folder / "x.parquet", row_group_size=2)
        gaps = pyarrow.table({"n": pyarrow.array([1, None, 3])})
        parquet.write_table(gaps, folder / "gaps.parquet")

    write(comm, make)
    section = {"path": "x.parquet", "labels": "tree"}
    dataset = load_data(section, comm, folder)
    expected = np.column_stack([TABLE[:, :2], CODES, TABLE[:, 2]])
    assert np.array_equal(whole(dataset), expected)
    assert dataset.label_names == ("ash", "elm", "oak")
    assert np.array_equal(dataset.gather_labels(), np.unique(NAMES, return_inverse=True)[1])
    pixels = load_data({**section, "columns": ["n"], "scale": "unit"}, comm, folder)
    assert np.array_equal(whole(pixels)[:, 0], CODES / 255)
    few = load_data({**section, "rows": 3, "sample": True}, comm, folder)
    assert {tuple(row) for row in whole(few)} <= {tuple(row) for row in expected}
    with pytest.raises(InputError, match=r"column 'n' of .* has rows without a value"):
        load_data({"path": "gaps.parquet"}, comm, folder)


@pytest.mark.ranks(1, 2, 3)
def test_folder_of_pictures_is_labeled_by_its_subfolders(comm, folder):
    pixels = np.random.default_rng(0).integers(0, 255, (5, 4, 6), dtype=np.uint8)

    def make():
        for number, name in enumerate(["cat", "cat", "dog", "dog", "eel"]):
            (folder / "zoo" / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels[number]).save(folder / "zoo" / name / f"{number}.png")

    write(comm, make)
    dataset = load_data({"path": "zoo"}, comm, folder)
    assert np.array_equal(whole(dataset), pixels.reshape(5, 24))
    assert (dataset.image_shape, dataset.gather_labels().tolist()) == ((4, 6), [0, 0, 1, 1, 2])
    assert dataset.label_names == ("cat", "dog", "eel")
    write(comm, lambda: np.save(folder / "y.npy", np.array([1, 0, 1, 0, 1])))
    other = load_data({"path": "zoo", "labels": "y.npy"}, comm, folder)
    assert other.gather_labels().tolist() == [1, 0, 1, 0, 1]


def test_colored_pictures_keep_their_color_unless_asked(comm, folder):
    pixels = np.random.default_rng(0).integers(0, 255, (2, 3, 4, 3), dtype=np.uint8)
    (folder / "zoo").mkdir()
    for number in range(2):
        Image.fromarray(pixels[number]).save(folder / "zoo" / f"{number}.png")
    assert np.array_equal(load_data({"path": "zoo"}, comm, folder).values, pixels.reshape(2, 36))
    assert load_data({"path": "zoo", "gray": True}, comm, folder).values.shape == (2, 12)
    one = load_data({"path": "zoo/0.png"}, comm, folder)
    assert np.array_equal(one.values, pixels[0].reshape(12, 3))


def test_grays_of_16_bits_are_read_as_they_are(comm, folder):
    grays = np.arange(12, dtype=np.uint16).reshape(3, 4)
    (folder / "dark").mkdir()
    Image.fromarray(grays).save(folder / "dark" / "a.png")
    assert load_data({"path": "dark"}, comm, folder).values.tolist() == [[*range(12)]]
    Image.fromarray((grays // 2).astype(np.uint8)).save(folder / "dark" / "b.png")
    mixed = load_data({"path": "dark"}, comm, folder)  # then all are of 8 bits
    assert (mixed.values[0].max(), mixed.values[1].max()) == (0, 5)
    Image.fromarray(np.full((3, 4, 3), [1, 2, 3], np.uint8)).save(folder / "dark" / "c.png")
    Image.fromarray(300 * grays).save(folder / "dark" / "a.png")
    colored = load_data({"path": "dark"}, comm, folder).values
    np.testing.assert_array_equal(colored[[0, 2], -3:], [[12, 12, 12], [1, 2, 3]])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("path", ["x.npy", "x.csv"])
def test_rows_are_the_first_or_a_seeded_sample(comm, folder, path):
    write(comm, lambda: np.save(folder / "x.npy", TABLE))
    write(comm, lambda: np.savetxt(folder / "x.csv", TABLE, delimiter=",", fmt="%.17g"))
    write(comm, lambda: np.save(folder / "y.npy", NAMES))
    section = {"path": path, "rows": 4, "labels": "y.npy"}
    assert np.array_equal(whole(load_data(section, comm, folder)), TABLE[:4])
    sample = load_data({**section, "sample": True, "seed": 5}, comm, folder)
    chosen = np.sort(np.random.default_rng(5).choice(7, 4, replace=False))
    assert np.array_equal(whole(sample), TABLE[chosen])
    assert [sample.label_names[label] for label in sample.gather_labels()] == NAMES[chosen].tolist()


def read_pairs(path, options):
    """Reader of a format that a plugin brings: two numbers per line, times an option."""
    rows = [[float(word) for word in line.split("/")] for line in path.read_text().split()]
    return Source.of(np.array(rows) * options["factor"], f"'{path}'")


def test_a_plugin_brings_a_format_with_options(tmp_path, monkeypatch):
    spec = FormatSpec(
        name="pairs",
        summary="two numbers per line",
        load=f"{__name__}:read_pairs",
        pattern=r"\.pairs",
        options=(Option("factor", float, 1.0, "of all numbers", above=0),),
    )
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or ModuleType(__name__))
    monkeypatch.setattr(sys.modules[__name__], "read_pairs", read_pairs, raising=False)
    monkeypatch.setattr("thalweg.workbench.readers.formats.formats", lambda: [spec, *CORE])
    (tmp_path / "x.pairs").write_text("1/2\n3/4\n")
    section = {"path": "x.pairs", "factor": 2}
    assert load_data(section, folder=tmp_path).values.tolist() == [[2, 4], [6, 8]]
    with pytest.raises(InputError, match=r"'factor' .* must be greater than 0"):
        load_data({**section, "factor": 0}, folder=tmp_path)
    with pytest.raises(InputError, match=r"'header' .* has no meaning for 'x.pairs'"):
        load_data({**section, "header": True}, folder=tmp_path)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("name", ["blobs", "swiss-roll", "s-curve", "moons"])
def test_generated_sets_do_not_depend_on_the_ranks(comm, name):
    section = {"name": name, "rows": 11, "seed": 4, "noise": 0.1}
    if name == "blobs":
        del section["noise"]
    shared, alone = load_data(section, comm), load_data(section, MPI.COMM_SELF)
    assert np.array_equal(whole(shared), alone.values)
    assert np.array_equal(shared.gather_labels(), alone.labels)
    assert not np.array_equal(load_data({**section, "seed": 5}, MPI.COMM_SELF).values, alone.values)


def test_every_named_set_is_described_and_has_options_that_the_section_accepts():
    names = {spec.name for spec in data_sets()}
    assert {"digits", "iris", "wine", "breast-cancer", "blobs", "swiss-roll", "openml"} <= names
    for spec in data_sets():
        assert spec.summary
        assert callable(spec.resolve())
    assert "noise" in {option.name for option in data_options("moons")}
    assert "noise" not in {option.name for option in data_options("iris")}


@pytest.mark.ranks(1, 2)
def test_openml_goes_through_scikit_learn(comm, monkeypatch):
    import sklearn.datasets
    from sklearn.utils import Bunch

    def fetch(name, version, as_frame, parser):
        assert (name, version, as_frame) == ("trees", 2, False)
        return Bunch(
            data=np.arange(6.0).reshape(3, 2), target=np.array(["b", "a", "b"], dtype=object)
        )

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    dataset = load_data({"name": "openml:trees", "version": 2}, comm)
    assert np.array_equal(whole(dataset), np.arange(6.0).reshape(3, 2))
    assert (dataset.gather_labels().tolist(), dataset.label_names) == ([1, 0, 1], ("a", "b"))


def test_labels_of_a_list_keep_their_text_and_a_row_of_them_is_a_list(tmp_path):
    np.save(tmp_path / "data.npy", np.eye(4))
    (tmp_path / "text.csv").write_text("01\n1\n001\n1\n")
    np.savetxt(tmp_path / "saved.csv", [0, 1, 1, 0])
    scipy.io.savemat(tmp_path / "row.mat", {"labels": np.array([5, 6, 6, 7])})
    for name, labels, names in (
        ("text.csv", [1, 2, 0, 2], ("001", "01", "1")),
        ("saved.csv", [0, 1, 1, 0], None),
        ("row.mat", [0, 1, 1, 2], ("5", "6", "7")),
    ):
        data = load_data({"path": str(tmp_path / "data.npy"), "labels": str(tmp_path / name)})
        assert (data.labels.tolist(), data.label_names) == (labels, names)
        assert read_labels(tmp_path / name).tolist() == labels


def test_a_note_says_that_labels_are_a_column_and_not_the_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "y").write_text("0\n1\n")
    (tmp_path / "d.csv").write_text("a,y\n1.5,1\n2,0\n")
    assert "not the file" in "".join(load_data({"path": "d.csv", "labels": "y"}).notes)
