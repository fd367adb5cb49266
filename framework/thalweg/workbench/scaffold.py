"""A plugin distribution to start from: ``thalweg plugin new NAME``."""

import importlib.util
import keyword
import os
import re
import shutil
import string
from pathlib import Path

from thalweg.errors import InputError
from thalweg.plugins.manager import plugins
from thalweg.plugins.specs import KINDS

#: The template, whose files and folders are called "package" where the package's name stands.
_TEMPLATE = Path(__file__).parent / "template"

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def write_distribution(name: str, folder: Path | str) -> Path:
    """Write a small distribution with an objective, a preconditioner and a solver; its folder.

    It passes ``thalweg plugin check`` as it is, and is meant to be changed.  The package of
    ``thalweg-mine`` is called ``thalweg_mine``, and its plugins after what follows ``thalweg-``.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"'{name}' is not a valid name for a plugin: use lower-case letters, digits and "
            f"single hyphens, beginning with a letter, as in 'thalweg-mine'"
        )
    package = name.replace("-", "_")
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise InputError(f"'{name}' is a word of Python's own; try 'thalweg-{name}'")
    if importlib.util.find_spec(package) is not None:
        raise InputError(f"a Python package '{package}' is already installed; choose another name")
    short = re.sub(r"^thalweg[-_]", "", name).replace("_", "-")
    manager = plugins()
    taken = {provider.name for provider in (*manager.providers, *manager.broken)}
    taken |= {spec.name for kind in KINDS for spec in manager.specs(kind)}
    if short in taken:
        raise InputError(f"a plugin is already called '{short}'; choose another name than '{name}'")
    names = {"name": name, "package": package, "short": short}
    names["Class"] = "".join(part.capitalize() for part in re.split("[-_]", name))
    if "\0" in str(folder):
        raise InputError(f"the name of a folder must not contain null characters: {folder!r}")
    folder = Path(folder)
    if folder.exists() or folder.is_symlink():
        raise InputError(f"'{folder}' already exists; choose another folder or remove it")
    if not folder.parent.is_dir():
        raise InputError(f"the folder '{folder.parent}' to write in does not exist")
    temporary = folder.parent / f".{folder.name}.{os.getpid()}"
    try:
        for source in _TEMPLATE.rglob("*.txt"):
            target = str(source.relative_to(_TEMPLATE).with_suffix(""))
            path = temporary / target.replace("package", names["package"])
            path.parent.mkdir(parents=True, exist_ok=True)
            text = string.Template(source.read_text(encoding="utf-8")).substitute(names)
            path.write_text(text, encoding="utf-8")
        temporary.rename(folder)
    except OSError as error:
        raise InputError(f"'{folder}' cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder
