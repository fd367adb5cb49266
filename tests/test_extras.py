"""What is not installed is named in a sentence, with the extra that brings it, and costs no run."""

import subprocess
import sys

import numpy as np
import pytest

CONFIG = '[data]\npath = "{data}"\n[objective]\nname = "lle"\n[stop]\niterations = 2\n'


@pytest.fixture
def command(tmp_path):
    """Runs the command line where these modules cannot be imported."""

    def run(line, *missing):
        hidden = f"import sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
        script = f"{hidden}from thalweg.workbench.command.main import script; script()"
        shell = [sys.executable, "-W", "ignore", "-c", script, *line.split()]
        return subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    return run


def test_a_run_without_matplotlib_tqdm_and_pillow_ends_with_a_note(command, tmp_path):
    np.save(tmp_path / "points.npy", np.random.default_rng(0).normal(size=(40, 3)))
    (tmp_path / "run.toml").write_text(CONFIG.format(data="points.npy"))
    done = command("run run.toml --out out", "matplotlib", "tqdm", "PIL")
    assert done.returncode == 0, done.stderr
    told = "drawing needs matplotlib, which is not installed: pip install 'thalweg[pictures]'"
    assert told in done.stdout
    assert (tmp_path / "out/solution.npy").exists()
    page = command("plot out --html", "matplotlib", "PIL")
    assert page.returncode == 2
    assert "pip install 'thalweg[pictures]'" in page.stderr


#: Files by their endings: the module that reads them, and the extra that brings it.
FILES = {
    "h5": ("h5py", "formats"), "parquet": ("pyarrow", "formats"), "png": ("PIL", "pictures"),
    "zarr": ("zarr", "zarr"),
}  # fmt: skip


@pytest.mark.parametrize("ending", FILES)
def test_files_that_need_an_extra_name_it(thalweg_command, tmp_path, monkeypatch, ending):
    file, (module, extra) = f"a.{ending}", FILES[ending]
    for name in (module, *(name for name in sys.modules if name.startswith(f"{module}."))):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / file).write_bytes(b"content")
    (tmp_path / "run.toml").write_text(CONFIG.format(data=file))
    done = thalweg_command("run", "run.toml", "--out", "out", folder=tmp_path)
    assert done.returncode == 2
    told = f"{file}' needs {module}, which is not installed: pip install 'thalweg[{extra}]'"
    assert told in done.stderr
    assert not (tmp_path / "out").exists()
