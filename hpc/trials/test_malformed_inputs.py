"""Malformed inputs: each gets one sentence and exit code 2, and nothing is written."""

import gzip
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image

from thalweg.workbench.command.main import main

TABLE = np.random.default_rng(0).standard_normal((12, 3))

#: A configuration that runs in no time; cases change one thing in it.
GOOD = """
[data]
name = "iris"
rows = 20
[objective]
name = "elastic-embedding"
perplexity = 4
[solver]
name = "gradient-descent"
[stop]
iterations = 1
[output]
pictures = false
"""


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys) -> Callable[..., str]:
    """Runs ``thalweg`` in an empty folder and gives the sentence of its refusal."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        before = _contents(tmp_path)
        code = main(list(arguments))
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err, shown.err
        assert code == 2, (code, shown.err, shown.out)
        assert shown.err.startswith("thalweg: "), shown.err
        assert shown.err.count("\n") == 1, shown.err
        assert len(shown.err) < 1200, shown.err
        assert _contents(tmp_path) == before
        return shown.err

    return run


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"folder"
        for path in sorted(folder.rglob("*"))
    }


# -- configurations ----------------------------------------------------------------------------

#: Whole files.
TEXTS: dict[str, str | bytes] = {
    "empty": "",
    "no-toml": "this is not TOML",
    "twice-a-table": "[data]\n[data]\n",
    "not-utf8": b"[data]\nname = '\xff\xfe'\n",
    "control-character": b"[data]\nname = 'a\x01b'\n",
    "escaped-null": GOOD.replace('"iris"', '"iris\\u0000"'),
    "binary": bytes(range(256)),
    "nested-arrays": "a = " + "[" * 50_000 + "]" * 50_000,
    "dotted-deep": ".".join(["a"] * 20_000) + " = 1",
    "thousands-of-digits": "[stop]\niterations = 1" + "0" * 5000,
    "section-is-list": "data = [1]",
    "section-is-array-of-tables": GOOD.replace("[data]", "[[data]]"),
    "method-is-table": GOOD + '[method]\nsolver = "lbfgs"\n',
    "method-in-run": GOOD + '[[method]]\nsolver = "lbfgs"\n',
    "unknown-section": GOOD + "[stopp]\niterations = 1\n",
    "no-objective": GOOD.replace("[objective]", "[solver2]"),
    "objective-without-name": GOOD.replace('name = "elastic-embedding"', ""),
    "objective-name-number": GOOD.replace('"elastic-embedding"', "3"),
    "objective-name-path": GOOD.replace('"elastic-embedding"', '"../../etc"'),
    "no-data": GOOD.replace('[data]\nname = "iris"\nrows = 20', ""),
    "data-not-wanted": '[data]\nname = "iris"\n[objective]\nname = "rosenbrock"\n',
    "both-path-and-name": GOOD.replace('name = "iris"', 'name = "iris"\npath = "a.npy"'),
}


@pytest.mark.parametrize("name", TEXTS)
def test_configuration_files(name, refused, tmp_path):
    text = TEXTS[name]
    (tmp_path / "c.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused("run", "c.toml", "--out", "out")


CHANGES = [
    *(f"objective.dimensions={value}" for value in
      ("0", "-1", "2.5", "true", '"two"', "inf", "nan", "[2]", "1e3", "10000000", "2147483648",
       "9223372036854775807", "9223372036854775808", "{a=1}", "", "1979-05-27")),
    *(f"objective.lambda={value}" for value in
      ("inf", "-inf", "nan", "-1", '"much"', "true", "[1.0]", "1" + "0" * 400, "1e999", "")),
    *(f"objective.perplexity={value}" for value in
      ("0", "1", "-3", "1e9", "inf", "nan", '"many"', "true", "[30]")),
    *(f"objective.{name}=nonsense" for name in
      ("affinity", "graph", "init", "repulsion", "repulsive_weights", "nothing")),
    "objective.init_scale=0", "objective.init_scale=-1", "objective.init_scale=inf",
    "objective.early_exaggeration=-3", "objective.early_exaggeration=0.5",
    "objective.early_exaggeration=inf",
    "objective.repulsion_error=0", "objective.repulsion_error=2", "objective.name=tsne",
    *(f"homotopy.values={value}" for value in
      ("[]", "[-1.0]", "[1.0, inf]", "[nan]", "[[1.0]]", '["a"]', "[true]", "3", "[1.0, -2.0]")),
    "homotopy.first=0", "homotopy.first=-1", "homotopy.first=inf", "homotopy.stages=0",
    "homotopy.stages=1.5", "homotopy.iterations=0", "homotopy.decrease=-1",
    "solver.name=lbgfs", "solver.name=", "solver.name=3", "solver.name=[]", "solver.name=tao:",
    "solver.name=tao:nonsense", "solver.name=scipy:nonsense", "solver.name=scipy:", "solver.name=:",
    "solver.name=lbfgs:x", "solver.armijo=0", "solver.armijo=0.7", "solver.armijo=nan",
    "solver.shrink=1.5", "solver.growth=0.5", "solver.trials=0", "solver.first_step=-1",
    "solver.line_search=wolfe", "solver.nothing=1", "solver.preconditioner=identity",
    "preconditioner.name=nonsense", "preconditioner.name=", "preconditioner.neighbours=7",
    "preconditioner.name=3", "preconditioner=spectral", "preconditioner.=3",
    "stop.iterations=-1", "stop.iterations=1.5", "stop.iterations=many", "stop.iterations=inf",
    "stop.iterations=1" + "0" * 30, "stop.evaluations=0", "stop.seconds=-1", "stop.seconds=nan",
    "stop.gradient=-1", "stop.gradient=inf", "stop.decrease=-1", "stop.decrease=nan",
    "stop.itertions=3", "stop.iterations=none more",
    "run.seed=-1", "run.seed=1.5", "run.seed=x", "run.seed=1" + "0" * 40, "run.start=missing.npy",
    "run.start=3", "run.start=", "run.checkpoint=-1", "run.checkpoint=often", "run.checkpoint=nan",
    "output.dir=3", "output.dir=[]", "output.pictures=3", "output.pictures=yes",
    "output.animation=1", "output.format=png",
    "data.rows=0", "data.rows=-5", "data.rows=1000000", "data.rows=2.5", "data.rows=all",
    "data.seed=-1", "data.sample=1", "data.columns=[]", "data.columns=[99]", "data.columns=[0, 0]",
    'data.columns=["a"]', "data.columns=3", "data.columns=[1.5]", "data.columns=[true]",
    "data.scale=log", "data.scale=3", "data.components=0", "data.components=99",
    "data.components=1.5", "data.dtype=int8", "data.dtype=3", "data.labels=a.npy", "data.key=x",
    "data.delimiter=;", "data.header=true", "data.name=irsi", "data.name=", "data.name=3",
    "data.name=openml:", "data.path=", "data.path=3", "data.path=missing.npy", "data.path=/",
    "data.path=nowhere/a.npy", "data.path=a.unknown", "data.path=" + "x" * 600,
    "nosection=3", "=3", "stop.iterations", "", ".", "stop.=3", ".iterations=3", "stopp.x=1",
    "method.solver=lbfgs", "stop=3", "objective.dimensions=" + "[" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[:40] or "empty")
def test_changes(change, refused, tmp_path):
    (tmp_path / "c.toml").write_text(GOOD)
    refused("run", "c.toml", "--out", "out", "--set", change)


# -- arguments ---------------------------------------------------------------------------------

ARGUMENTS = [
    ("rnu",), ("run",), ("run", "missing.toml"), ("run", "."), ("run", ""), ("run", "a\0b"),
    ("run", "x" * 600), ("run", "c.toml", "d.toml"), ("run", "c.toml", "--outt", "out"),
    ("run", "c.toml", "--out"), ("run", "c.toml", "--out", ""), ("run", "c.toml", "--set"),
    ("run", "c.toml", "--out", "c.toml"), ("run", "c.toml", "--out", "c.toml/below"),
    ("run", "c.toml", "--out", "x" * 600), ("run", "c.toml", "--out", "a\0b"),
    ("run", "c.toml", "--resum"), ("run", "c.toml", "--quiet=yes"),
    ("compare", "c.toml"), ("compare", "c.toml", "--resume"), ("compare", "missing.toml"),
    ("compare", "c.toml", "--out", ""),
    ("plot",), ("plot", "missing"), ("plot", ""), ("plot", "c.toml"), ("plot", "."),
    ("plot", "a\0b"), ("plot", ".", "--htm"), ("list", "nonsense"), ("list", ""),
    ("list", "--jsn"), ("list", "a", "b"), ("plugin",), ("plugin", "make"), ("plugin", "new"),
    ("plugin", "new", "Bad Name"), ("plugin", "new", ""), ("plugin", "new", "../x"),
    ("plugin", "new", "class"), ("plugin", "new", "thalweg-good", "c.toml"),
    ("plugin", "new", "thalweg-good", "no/where"), ("plugin", "new", "thalweg-good", "a\0b"),
    ("plugin", "check"), ("plugin", "check", "no.such.module"), ("plugin", "check", "no such"),
    ("plugin", "check", ""), ("plugin", "check", ".relative"), ("doctor", "--jsn"), ("--verson",),
    ("doctor", "x"), ("--json",), ("certify",), ("certify", "a.npy"), ("certify", "a.npy", "b.npy"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda a: " ".join(a)[:40])
def test_arguments(arguments, refused, tmp_path):
    (tmp_path / "c.toml").write_text(GOOD)
    refused(*arguments)


# -- data files --------------------------------------------------------------------------------


def npy(shape: object = (12, 3), descr: object = "<f8", body: int = 288, version: int = 1) -> bytes:
    """An npy file whose header says what it likes."""
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes((version, 0)) + size + header + bytes(body)


def zipped(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def saved(array: object, **options: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)  # type: ignore[arg-type]
    return stream.getvalue()


def idx(*sizes: int, code: int = 8, body: int = 0) -> bytes:
    return bytes((0, 0, code, len(sizes))) + struct.pack(f">{len(sizes)}I", *sizes) + bytes(body)


def mat(**variables: object) -> bytes:
    stream = io.BytesIO()
    scipy.io.savemat(stream, variables)
    return stream.getvalue()


def picture(kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (32, 32), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


GOOD_NPY = saved(TABLE)
GOOD_NPZ = zipped(a=GOOD_NPY)
GOOD_MAT = mat(a=TABLE)

FILES: dict[str, bytes] = {
    **{f"{kind}-{name}{ending}": content
       for ending in (".npy", ".npz", ".csv", ".mat", ".png", "-idx2-ubyte", "-idx2-ubyte.gz",
                      ".csv.gz", ".tif")
       for kind, name, content in (("no", "bytes", b""), ("other", "format", b"MATLAB\x89PNG\0\r"),
                                   ("many", "zeros", bytes(4096)))},
    "truth.npy": npy((True, 3)),
    "no-axes.npy": npy((), body=8),
    "no-rows.npy": npy((0, 3), body=0),
    "many-axes.npy": npy((1,) * 60, body=8),
    "dates.npy": saved(np.zeros((3, 3), dtype="M8[s]")),
    "record.npy": saved(np.zeros(3, dtype=[("a", float), ("b", int)])),
    "bad-type.npy": npy(descr="<f3"),
    "type-is-code.npy": npy(descr="__import__('os').system('true')"),
    "version-9.npy": npy(version=9),
    "version-2-cut.npy": npy(version=2)[:20],
    "nested-header.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", 60_000) + b"(" * 60_000,
    "one-row.npy": saved(TABLE[:1]),
    "promises.npz": zipped(a=npy((2**26, 1000))),
    "promises-less-than-memory.npz": zipped(a=npy((10**7, 3))),
    "damaged.npz": GOOD_NPZ[:60] + b"\0\1\2\3" + GOOD_NPZ[64:],
    "nothing-inside.npz": zipped(),
    "no-array.npz": zipped(a=b"just text"),
    "comments.csv": b"# one\n# two\n",
    "quotes.csv": b'"1,2\n3,4\n',
    "overflow.csv": b"1,2\n3,1e999\n5,6\n",
    "latin1.csv": "é,b\n1,2\n".encode("latin-1"),
    "nulls.csv": b"1,2\n3,\0\n",
    "field.csv": b'1,"' + b"1" * 200_000 + b'"\n2,3\n',
    "words.csv": b"one,two\nthree,four\n",
    "damaged.csv.gz": gzip.compress(b"1,2\n3,4\n" * 100)[:-12] + b"\0" * 12,
    "no-dimensions-idx": bytes((0, 0, 8, 0)),
    "dimensions-idx": idx(*(1,) * 40, body=1),
    "huge-idx": idx(2**32 - 1, 2**32 - 1),
    "bad-code-idx": idx(12, 3, code=0x42, body=36),
    "header-cut-idx": idx(12, 3)[:7],
    "huge-idx.gz": gzip.compress(idx(2**32 - 1, 2**32 - 1)),
    "long-idx.gz": gzip.compress(idx(12, 3, body=2**20)),
    "cut.mat": GOOD_MAT[:-50],
    "damaged.mat": GOOD_MAT[:140] + b"\xff" * 16 + GOOD_MAT[156:],
    "struct.mat": mat(a={"b": 1.0}),
    "string.mat": mat(a="text"),
    "hdf5.mat": b"MATLAB 7.3 MAT-file" + bytes(600),
    "cut.png": picture()[:500],
    "cut.tif": picture("TIFF")[:100],
    "text.gif": b"GIF89a" + bytes(10),
}  # fmt: skip


#: Pipes that nobody writes to, and the option that names one; "" is the configuration.
PIPES = [
    *((f"a.{end}", "data.path") for end in ("npy", "npz", "csv", "h5", "mat", "png", "parquet")),
    ("a.csv", "data.labels"),
    ("a.npy", "run.start"),
    ("a.toml", ""),
]


@pytest.mark.timeout(60)  # a command that opens the pipe waits for ever
@pytest.mark.parametrize(("name", "option"), PIPES)
def test_pipes(name, option, refused, tmp_path):
    np.save(tmp_path / "good.npy", TABLE)
    os.mkfifo(tmp_path / name)
    text = GOOD.replace('name = "iris"\nrows = 20', 'path = "good.npy"')
    (tmp_path / "c.toml").write_text(text)
    given = ["c.toml", "--set", f"{option}={name}"] if option else [name]
    assert "is a pipe or a device; give a file" in refused("run", *given, "--out", "out")


def test_an_archive_that_unpacks_to_gigabytes_gives_the_rows_that_are_asked_for(tmp_path):
    """Not a refusal: 100 rows of a table of 1.9 GiB are read without unpacking the rest."""
    from thalweg.workbench.readers import load_data

    rows = 250_000
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w", force_zip64=True) as stream,
    ):
        stream.write(npy((rows, 1000), body=0))
        for _ in range(rows // 2500):
            stream.write(bytes(2500 * 1000 * 8))
    assert load_data({"path": str(tmp_path / "a.npz"), "rows": 100}).values.shape == (100, 1000)


# -- labels ------------------------------------------------------------------------------------

LABELS: dict[str, bytes] = {
    "thirteen.npy": saved(np.arange(13)),
    "fractions.npy": saved(np.linspace(0, 1, 12)),
    "large.npy": saved(np.full(12, 1e300)),
    "table.npy": saved(TABLE),
    "two-hot.npy": saved(np.ones((12, 2))),
    "days.npy": saved(np.zeros(12, dtype="M8[s]")),
    "short.npy": saved(np.arange(12))[:-8],
    "short.csv": b"a\nb\n",
    "two.npz": zipped(a=saved(np.arange(12)), b=saved(np.arange(12))),
    "short-idx1-ubyte": idx(12, body=11),
    "what.unknown": b"1\n",
}


@pytest.mark.parametrize("name", [*FILES, *LABELS])
def test_data_files_and_labels(name, refused, tmp_path):
    (tmp_path / "data.npy").write_bytes(GOOD_NPY)
    (tmp_path / name).write_bytes(FILES.get(name) or LABELS.get(name, b""))
    section = f'path = "{name}"' if name in FILES else f'path = "data.npy"\nlabels = "{name}"'
    (tmp_path / "c.toml").write_text(GOOD.replace('name = "iris"\nrows = 20', section))
    refused("run", "c.toml", "--out", "out")


# -- output folders ----------------------------------------------------------------------------

PLOTS: dict[str, dict[str, bytes]] = {
    "empty-trace": {"trace.csv": b""},
    "trace-alone": {"trace.csv": b"iteration,evaluations,seconds,objective\n0,1,0,1\n"},
    "comparison-is-empty": {"comparison.json": b""},
    "comparison-without-methods": {"comparison.json": b"{}"},
    "comparison-leads-away": {"comparison.json": json.dumps(
        {"methods": [{"method": "a", "folder": "../../etc"}]}).encode()},
    "comparison-nested": {"comparison.json": b"[" * 100_000},
}  # fmt: skip


@pytest.mark.parametrize("name", PLOTS)
def test_folders_to_plot(name, refused, tmp_path):
    (tmp_path / "out").mkdir()
    for file, content in PLOTS[name].items():
        (tmp_path / "out" / file).write_bytes(content)
    refused("plot", "out")
