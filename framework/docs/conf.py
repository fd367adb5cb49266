"""Sphinx's configuration: pages are collected from where they live in the repository.

The project's README, the guides (the README of each plugin and engine), the pictures of
recorded results and the public names of every layer become pages in ``_pages``, which is
written anew at each build.  Nothing is fetched from the network.
"""

import importlib
import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

from thalweg.plugins import plugins
from thalweg.plugins.specs import KINDS
from thalweg.workbench.command.installation import as_written, limits

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGES = HERE / "_pages"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

project = "thalweg"
release = PROJECT["project"]["version"]
version = release
extensions = [
    "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]  # fmt: skip
myst_enable_extensions = ["dollarmath", "attrs_inline", "colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"thalweg {release}"
html_static_path: list[str] = []
# The paper has the form of its journal; the examples become pages of the gallery.
exclude_patterns = ["_build", "paper.md", "examples"]
add_module_names = False
autodoc_typehints = "signature"
autodoc_member_order = "groupwise"
napoleon_google_docstring = False
# Links of the READMEs to files that are not pages, and types of packages that are not indexed.
suppress_warnings = [
    "myst.xref_missing", "myst.header", "ref.python", "autodoc.mocked_object", "config.cache",
]  # fmt: skip


def _figure_of(block: Any, variables: dict[str, Any], gallery: dict[str, Any]) -> str:
    """Save what an example calls its figure, which need not be one of pyplot's."""
    from sphinx_gallery.scrapers import figure_rst

    figure = variables["example_globals"].pop("figure", None)
    if figure is None:
        return ""
    path = next(variables["image_path_iterator"])
    figure.savefig(path, dpi=110)
    return str(figure_rst([path], gallery["src_dir"]))


sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "_examples",
    "image_scrapers": (_figure_of,),
    "within_subsection_order": "FileNameSortKey",
    "show_signature": False,
    "abort_on_example_error": True,
}

#: Packages whose ``__all__`` is public, in the order of the layers.
MODULES = (
    "thalweg",
    *(f"thalweg.{layer}" for layer in PROJECT["tool"]["thalweg"]["public"]),
    *sorted(path.parent.name for path in (ROOT / "plugins").glob("*/__init__.py")),
)


def _pages() -> None:
    """Write the pages of this build."""
    shutil.rmtree(PAGES, ignore_errors=True)
    (PAGES / "api").mkdir(parents=True)
    _include(ROOT / "README.md", "readme")
    guides = sorted(
        [*ROOT.glob("plugins/*/README.md"), *ROOT.glob("framework/thalweg/**/README.md")]
    )
    names = []
    for guide in guides:
        place = guide.relative_to(ROOT).parts[1:-1]
        names.append(_include(guide, "-".join(place), _options(place[-1])))
    _index("guides", "Guides", names)
    for module in MODULES:
        _api(module)
    _index("api", "Python API", [f"api/{module}" for module in MODULES])
    _benchmarks()


def _include(source: Path, name: str, more: str = "") -> str:
    """A page that shows a Markdown file, its relative links and pictures still leading there."""
    text = source.read_text(encoding="utf-8") + more
    folder = os.path.relpath(source.parent, PAGES)

    def moved(link: re.Match[str]) -> str:
        start, target, end = link.groups()
        if re.match(r"[a-z]+:|#|/", target):
            return link.group(0)
        return f"{start}{folder}/{target}{end}"

    text = re.sub(r"(\]\()([^)\s]+)(\))", moved, text)
    (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
    return name


def _options(package: str) -> str:
    """Tables of all options of a plugin package, as they are declared."""
    found = plugins()
    specs = [spec for kind in KINDS for spec in found.specs(kind) if spec.load.startswith(package)]
    lines = ["", "## Options", ""] if specs else []
    for spec in specs:
        lines += [f"### {spec.owner}", "", f"{spec.summary}.", ""]
        rows = [
            f"| `{option.name}` | {as_written(option.default)} | {limits(option)} | {option.help} |"
            for option in spec.declared_options
        ]
        if rows:
            lines += ["| option | default | values | meaning |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _index(name: str, title: str, pages: list[str]) -> None:
    listed = "\n".join(pages)
    text = f"# {title}\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    (PAGES / f"{name}.md").write_text(text, encoding="utf-8")


def _api(module: str) -> None:
    """The public names of a package, each documented from where it is defined."""
    package = importlib.import_module(module)
    names = getattr(package, "__all__", None) or [n for n in vars(package) if n[0].isupper()]
    lines = [module, "=" * len(module), "", f".. automodule:: {module}", "    :no-index:", ""]
    for name in names:
        item = getattr(package, name)
        if getattr(item, "__module__", "").split(".")[0].startswith("thalweg"):
            kind = "class" if isinstance(item, type) else "function"
            lines += [f".. auto{kind}:: {item.__module__}.{name}"] if callable(item) else []
            lines += ["    :members:"] if kind == "class" else []
            lines += ["    :no-index:"] if module == "thalweg" else []
            lines += [""]
    (PAGES / "api" / f"{module}.rst").write_text("\n".join(lines), encoding="utf-8")


def _benchmarks() -> None:
    """The pictures of recorded results, each with the page that explains it."""
    results = ROOT / "hpc" / "results"
    folder = os.path.relpath(results, PAGES)
    lines = ["# Benchmarks", "", "Pictures of recorded results; the reports have the numbers.", ""]
    reports = sorted(results.glob("*.md"))
    for report in reports:
        _include(report, f"results-{report.stem}")
    for report in reports:
        pictures = sorted(results.glob(f"{report.stem}-*.png"))
        lines += [f"## [{report.stem}](results-{report.stem}.md)", ""]
        lines += [f"![{path.stem.replace('-', ' ')}]({folder}/{path.name})\n" for path in pictures]
    hidden = "\n".join(f"results-{report.stem}" for report in reports)
    lines += ["```{toctree}", ":hidden:", "", hidden, "```", ""]
    (PAGES / "benchmarks.md").write_text("\n".join(lines), encoding="utf-8")


_pages()


def setup(app: Any) -> None:
    """Let docstrings be what they are in a terminal: a bar is a bar, as in |H|, lambda_ a name."""

    def escape(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
        lines[:] = [re.sub(r"(``.*?``)|\|", lambda m: m.group(1) or r"\|", line) for line in lines]
        # Napoleon writes ':param lambda_:', which docutils takes for a reference.
        lines[:] = [re.sub(r"^(:param \S*)_:", r"\1\\_:", line) for line in lines]

    def skip(app: Any, what: str, name: str, item: Any, skipped: bool, options: Any) -> bool | None:
        # What scikit-learn adds to estimators refers to labels of its own pages.
        return True if re.fullmatch(r"set_\w+_request", name) else None

    app.connect("autodoc-process-docstring", escape)
    app.connect("autodoc-skip-member", skip)
