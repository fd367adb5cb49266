"""The code of the guide runs, and its configuration is valid."""

import re
from pathlib import Path

from thalweg.plugins import declared_options, resolve_options
from thalweg_clustering.build import build_kdac

GUIDE = Path(__file__).parents[3] / "plugins" / "thalweg_clustering" / "README.md"


def _blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), flags=re.S)


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in _blocks("python"):
        exec(compile(block, str(GUIDE), "exec"), {})
    assert (tmp_path / "views.png").stat().st_size > 1000


def test_the_guide_names_every_option():
    text = GUIDE.read_text()
    for option in declared_options(build_kdac):
        assert f"`{option.name}`" in text, option.name


def test_the_configuration_is_valid():
    import tomllib

    (block,) = _blocks("toml")
    given = {k: v for k, v in tomllib.loads(block)["objective"].items() if k != "name"}
    resolve_options(declared_options(build_kdac), given, "objective 'kdac'")
