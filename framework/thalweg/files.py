"""Files that appear whole or not at all, and are on the disk once they have their name."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from thalweg.errors import InputError, StorageError


@contextmanager
def atomic_write(path: Path | str) -> Iterator[Path]:
    """A path to write to, which takes the wanted name once the block has ended well.

    No reader ever sees a half-written file, and a failure leaves what was there.  The file and its
    folder are flushed to the disk before the block is left.  A ``StorageError`` where the file
    cannot be written, for instance since the disk is full.
    """
    path = Path(path)
    temporary = temporary_name(path)
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            flush(temporary)
            os.replace(temporary, path)
            flush(path.parent)
        finally:
            with suppress(OSError):
                temporary.unlink()


@contextmanager
def storing(path: Path | str) -> Iterator[None]:
    """Turn the operating system's errors in the block into a :class:`StorageError`."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write '{path}': {error.strerror or error}") from error


def atomic_write_text(path: Path | str, text: str) -> None:
    """Write a text file as UTF-8, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def temporary_name(path: Path) -> Path:
    """Name under which this process writes a file before it takes the name ``path``."""
    # The ending stays, since writers derive the format from it.
    return path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some network file systems cannot flush a folder
            raise
    finally:
        os.close(descriptor)


def refuse_special_file(path: Path) -> None:
    """Raise an :class:`InputError` for a device or a pipe, whose reader may wait for ever."""
    if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
        raise InputError(f"'{path}' is a pipe or a device; give a file")


def regular_file(path: Path) -> Path:
    """The path, unless a link or a pipe is there: it could lead elsewhere, or wait."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path
