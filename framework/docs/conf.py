"""Sphinx's configuration: pages are collected from where they live in the repository.

READMEs, recorded results and the public names of every layer become pages in ``_pages``, which is
written anew at each build.  Nothing is fetched from the network.
"""

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
extensions = [
    "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]  # fmt: skip
myst_enable_extensions = ["dollarmath", "attrs_inline", "colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_show_copyright = False
html_title = f"thalweg {release}"
# The paper has the form of its journal; the examples become pages of the gallery.
exclude_patterns = ["_build", "paper.md", "examples"]
add_module_names = False
autodoc_member_order = "groupwise"
# What scikit-learn adds to estimators refers to labels of its own pages.
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_predict_request, set_transform_request"
}
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
    "examples_dirs": "examples", "gallery_dirs": "_examples", "image_scrapers": (_figure_of,),
    "within_subsection_order": "FileNameSortKey", "show_signature": False,
    "abort_on_example_error": True,
}  # fmt: skip

#: Packages whose ``__all__`` is public.
MODULES = (
    "thalweg",
    *(f"thalweg.{layer}" for layer in PROJECT["tool"]["thalweg"]["public"]),
    *sorted(path.parent.name for path in (ROOT / "plugins").glob("*/__init__.py")),
)


def _write(name: str, text: str) -> None:
    path = PAGES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _include(source: Path, name: str, more: str = "") -> None:
    """A page that shows a Markdown file, its pictures still leading to where they are."""
    path = os.path.relpath(source, (PAGES / name).parent)
    _write(f"{name}.md", f"```{{include}} {path}\n:relative-images:\n```\n{more}")


def _options(package: str) -> str:
    """Tables of all options of a plugin package, as they are declared."""
    every = (spec for kind in KINDS for spec in plugins().specs(kind))
    specs = [spec for spec in every if spec.load.startswith(package)]
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


shutil.rmtree(PAGES, ignore_errors=True)
_include(ROOT / "README.md", "readme")
for guide in (*ROOT.glob("plugins/*/README.md"), *ROOT.glob("framework/thalweg/**/README.md")):
    place = guide.relative_to(ROOT).parts[1:-1]
    _include(guide, f"guides/{'-'.join(place)}", _options(place[-1]))
for report in ROOT.glob("hpc/results/*.md"):
    _include(report, f"results/{report.stem}")
for module in MODULES:
    # The top package repeats names of the layers.
    index = "    :no-index:\n" if module == "thalweg" else ""
    members = f".. automodule:: {module}\n    :members:\n    :imported-members:\n{index}"
    _write(f"api/{module}.rst", f"{module}\n{'=' * len(module)}\n\n{members}")


def setup(app: Any) -> None:
    """Let docstrings be what they are in a terminal: a bar is a bar, as in |H|, lambda_ a name."""

    def escape(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
        lines[:] = [re.sub(r"(``.*?``)|\|", lambda m: m.group(1) or r"\|", line) for line in lines]
        # Napoleon writes ':param lambda_:', which docutils takes for a reference.
        lines[:] = [re.sub(r"^(:param \S*)_:", r"\1\\_:", line) for line in lines]

    app.connect("autodoc-process-docstring", escape)
