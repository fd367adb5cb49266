"""Code in the README, the guides and the pages runs; configurations, commands and links are valid.

The Python blocks of a page run from top to bottom as one module, in a working folder of
their own.  A block whose first line is a comment with the name of a file, as in
``# mnist.toml``, is written to that file instead; the blocks that follow may import it.
"""

import importlib
import os
import re
import shlex
import sys
import textwrap
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path

import pytest
from ranks.launch import run_limited

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "framework" / "thalweg"
WRITING = ROOT / "framework" / "docs" / "writing-a-method.md"
GUIDES = sorted([*ROOT.glob("plugins/*/README.md"), *CORE.rglob("README.md")])
MATHEMATICS = sorted(ROOT.glob("plugins/*/MATHEMATICS.md"))
NOTES = sorted((ROOT / "hpc" / "results" / "notes").glob("*.md"))
PAGES = [ROOT / "README.md", *GUIDES, *MATHEMATICS, *NOTES]
PAGES += sorted((ROOT / "framework" / "docs").glob("*.md"))
DECISIONS = sorted((ROOT / "framework" / "docs" / "decisions").glob("0*.md"))
PAGES += [*DECISIONS, ROOT / "hpc" / "README.md", *sorted((ROOT / ".github").glob("*.md"))]

#: Parts of the framework that are used by themselves, and so have a guide.
ENGINES = ("parallel", "interfaces", "driver")

#: Guides whose code is written for any number of ranks.
ON_RANKS = [CORE / engine / "README.md" for engine in ENGINES]
ON_RANKS += [ROOT / "plugins" / "thalweg_descent" / "README.md"]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the number of its first line, and its text."""

    language: str
    line: int
    text: str

    @property
    def file(self) -> str | None:
        """Name of the file that the block is, if its first line says so."""
        found = re.match(r"# (\S+\.(?:py|toml))\n", self.text)
        return found and found.group(1)


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[2], text.count("\n", 0, found.start()) + 2, textwrap.dedent(found[3]))
        for found in re.finditer(r"^( *)```(\w+)\n(.*?)^\1```$", text, re.DOTALL | re.MULTILINE)
        if found[2] in languages
    ]


def pages(candidates: list[Path], *languages: str) -> list:
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in candidates
        if blocks(page, *languages)
    ]


@pytest.fixture
def folder(folder, monkeypatch):
    """An empty working folder, the same on all ranks."""
    monkeypatch.chdir(folder)
    return folder


def run_python(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in blocks(page, "python"):
        if block.file is None:
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), module.__dict__)


def write_files(page: Path, folder: Path) -> list[Path]:
    written = []
    for block in blocks(page, "python", "toml"):
        if block.file is not None:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            written.append(path)
    return written


@pytest.mark.parametrize(
    "page", pages([p for p in PAGES if p not in (*ON_RANKS, WRITING)], "python")
)
def test_the_python_of_a_page_runs(page, folder, monkeypatch):
    run_python(page, monkeypatch)
    for picture in re.findall(r"!\[.*\]\(([^/]+\.png)\)", page.read_text(encoding="utf-8")):
        assert (folder / picture).stat().st_size > 1000  # the example draws what the guide shows


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("page", pages(ON_RANKS, "python"))
def test_the_python_of_a_guide_runs_on_any_number_of_ranks(page, folder, monkeypatch, comm):
    run_python(page, monkeypatch)


# -- the worked examples -----------------------------------------------------------------------


@pytest.mark.petsc
@pytest.mark.ranks(1, 2)
def test_the_worked_examples_lead_from_plugin_new_to_mpirun(folder, monkeypatch, comm, capfd):
    """Every block and every command of the page, in its order; the ranks here are mpirun's."""
    from thalweg.plugins import plugins
    from thalweg.workbench.command.main import main

    def install(distribution: Path) -> None:
        """What ``pip install -e`` does, without a package index."""
        project = tomllib.loads((distribution / "pyproject.toml").read_text())["project"]
        if comm.rank == 0:
            facts = distribution / f"{project['name'].replace('-', '_')}.egg-info"
            facts.mkdir()
            (facts / "PKG-INFO").write_text(f"Name: {project['name']}\nVersion: 0.1.0\n")
            points = project["entry-points"]["thalweg"].items()
            lines = [f"{name} = {module}" for name, module in points]
            (facts / "entry_points.txt").write_text("\n".join(["[thalweg]", *lines]))
        comm.barrier()
        monkeypatch.syspath_prepend(str(distribution))

    def start_anew() -> None:
        """What a new process sees of the files as they are now."""
        plugins.cache_clear()
        importlib.invalidate_caches()
        sys.modules.pop("thalweg_mine.plugin", None)

    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    try:
        for block in blocks(WRITING, "python", "toml", "sh"):
            if block.language == "sh":
                for words in commands(block):
                    if words[:2] == ["pip", "install"]:
                        install(folder / words[-1])
                    else:
                        assert main(words[words.index("thalweg") + 1 :]) == 0, words
                    comm.barrier()
                    start_anew()
            elif block.file is not None:
                if comm.rank == 0:
                    (folder / block.file).write_text(block.text, encoding="utf-8")
                comm.barrier()
                start_anew()
            else:
                exec(compile(block.text, str(WRITING), "exec"), module.__dict__)
    finally:
        start_anew()
        for name in [name for name in sys.modules if name.partition(".")[0] == "thalweg_mine"]:
            del sys.modules[name]
    assert (folder / "runs" / "newton" / "solution.npy").exists()


@pytest.mark.slow
def test_the_template_and_the_worked_examples_pass_strict_type_checks(tmp_path):
    from thalweg.workbench.command.installation import write_distribution

    written = write_distribution("thalweg-mine", tmp_path / "thalweg-mine")
    write_files(WRITING, tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "strict"), "."]
    paths = f"{ROOT / 'framework'}:{ROOT / 'plugins'}"
    done = run_limited(command, 240, cwd=written, env={**os.environ, "MYPYPATH": paths})
    assert done.returncode == 0, done.stdout + done.stderr


# -- what is not run ---------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages(PAGES, "toml"))
def test_the_configurations_of_a_page_are_valid(page, tmp_path):
    from thalweg.workbench.config import read_configuration

    for block in blocks(page, "toml"):
        content = tomllib.loads(block.text)
        if "objective" in content and page != WRITING:  # what that page runs is valid
            read_configuration(content)


def commands(block: Block) -> list[list[str]]:
    """The command lines of a block, each as words without its comment."""
    lines = [shlex.split(line, comments=True) for line in block.text.splitlines()]
    return [words for words in lines if words]


#: Programs of commands that are shown, beside the repository's own.
PROGRAMS = (".", "git", "mpirun", "pip", "pytest", "python", "sbatch", "thalweg")


@pytest.mark.parametrize("page", pages([p for p in PAGES if p != WRITING], "sh"))
def test_the_commands_of_a_page_exist(page, thalweg_command):
    for block in blocks(page, "sh"):
        for words in commands(block):
            assert (ROOT / words[0]).exists() or words[0] in PROGRAMS, words[0]
            if "thalweg" in words:
                name, *rest = words[words.index("thalweg") + 1 :]
                # Options of that subcommand; help prints them without doing anything.
                shown = thalweg_command(name, *rest[: rest[:1] in (["new"], ["check"])], "--help")
                assert shown.returncode == 0, shown.stderr
                for option in (word for word in rest if word.startswith("--") and word != "--"):
                    assert option in shown.stdout, f"{name} {option}"


def imported_names(page: Path) -> list[tuple[str, str]]:
    found = []
    for block in blocks(page, "python"):
        pattern = r"^\s*from (thalweg\S*) import (?:\(([^)]*)\)|(.*))$"
        for module, several, one in re.findall(pattern, block.text, re.MULTILINE):
            names = re.split(r"[,\s]+", (several or one).partition("#")[0].strip(", \n"))
            found += [(module, name) for name in names]
    return found


@pytest.mark.parametrize("page", pages(PAGES, "python"))
def test_a_page_imports_nothing_but_promised_names(page):
    for module, name in imported_names(page):
        if not module.startswith(("thalweg_mine", "thalweg_saddlefree.")):
            assert name in importlib.import_module(module).__all__, (module, name)


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_the_links_of_a_page_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target


# -- what there must be ------------------------------------------------------------------------

#: What a guide answers.
HEADINGS = ("Options", "Costs", "cannot do", "References")


@pytest.mark.petsc
@pytest.mark.parametrize("package", sorted(p.parent.name for p in ROOT.glob("plugins/*/plugin.py")))
def test_the_guide_of_a_plugin_is_whole(package):
    """It is short, answers the usual questions, and shows a picture.

    It names all that the plugin offers; the page of its mathematics may do so in its place.
    """
    from thalweg.plugins.specs import KINDS

    text = (ROOT / "plugins" / package / "README.md").read_text(encoding="utf-8")
    mathematics = ROOT / "plugins" / package / "MATHEMATICS.md"
    headings = "\n".join(re.findall(r"^## (.*)$", text, re.MULTILINE))
    assert [wanted for wanted in HEADINGS if wanted not in headings] == []
    assert "![" in text
    assert f"plugins/{package}/README.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    if mathematics.exists():
        assert len(text.split()) <= 1500  # what is longer belongs to the other page
        assert "](MATHEMATICS.md" in text
        text += mathematics.read_text(encoding="utf-8")
    plugin = importlib.import_module(f"{package}.plugin")
    for hook in [kind.hook for kind in KINDS]:
        for spec in getattr(plugin, hook, list)():
            assert re.search(rf"`(thalweg )?{spec.name}\b", text), spec.owner
            for option in spec.declared_options:
                assert f"`{option.name}`" in text, f"option '{option.name}' of {spec.owner}"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_guide_of_an_engine_names_what_it_offers(engine):
    text = (CORE / engine / "README.md").read_text(encoding="utf-8")
    room = importlib.import_module(f"thalweg.{engine}")
    names = [*room.__all__, *[f"`{option.name}`" for option in getattr(room, "STOP_OPTIONS", ())]]
    assert [name for name in names if not re.search(rf"(?<!\w){name}(?!\w)", text)] == []
