"""References of the methods that a run used, in BibTeX.

A package that provides plugins may hold a file ``references.bib``; the field ``keywords``
of an entry lists the names of the plugins whose method it describes.
"""

import importlib.resources
import re
from collections.abc import Iterable
from typing import Any

from thalweg.plugins.manager import plugins
from thalweg.plugins.specs import ObjectiveSpec, PreconditionerSpec, SolverSpec, Spec

#: An entry begins a line with @ and ends with a line of one brace.
_ENTRY = re.compile(r"^@\w+\{.*?^\}$", re.MULTILINE | re.DOTALL)
_KEYWORDS = re.compile(r"^\s*keywords\s*=\s*\{([^}]*)\},?\n", re.MULTILINE | re.IGNORECASE)


def citation(specs: Iterable[Spec]) -> str:
    """BibTeX entries for thalweg and for the methods of these plugins, each once.

    Parameters
    ----------
    specs
        The objective, preconditioner and solver of a run.
    """
    names = [("thalweg", "thalweg")]
    names += [(spec.load.partition(":")[0].partition(".")[0], spec.name) for spec in specs]
    entries = [entry for package, name in names for entry in _entries(package, name)]
    return "\n\n".join(dict.fromkeys(entries)) + "\n"


def specs_of(*parts: Any) -> list[Spec]:
    """Specs of an objective, a preconditioner or a solver, which may be built by hand.

    They are found by the class that ``load`` names, or by the attribute ``label``, which
    :meth:`ObjectiveSpec.build <thalweg.plugins.Spec.build>` gives to objectives.
    """
    known: list[Spec] = [
        spec
        for kind in (ObjectiveSpec, PreconditionerSpec, SolverSpec)
        for spec in plugins().specs(kind)
    ]
    specs = []
    for part in parts:
        code = f"{type(part).__module__}:{type(part).__qualname__}"
        label = getattr(part, "label", None)
        specs += [spec for spec in known if spec.load == code]
        specs += [spec for spec in known if isinstance(spec, ObjectiveSpec) and spec.name == label]
    return specs


def _entries(package: str, name: str) -> list[str]:
    try:
        file = importlib.resources.files(package) / "references.bib"
        text = file.read_text(encoding="utf-8")
    except (OSError, ImportError, UnicodeDecodeError, TypeError):  # TypeError: a module, no package
        return []
    entries = []
    for entry in _ENTRY.findall(text):
        names = _KEYWORDS.search(entry)
        if names is not None and name in re.split(r"\s*,\s*", names[1].strip()):
            entries.append(_KEYWORDS.sub("", entry))
    return entries
