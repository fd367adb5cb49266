"""Files that appear whole or not at all, and the lock of a folder.

A file is on the disk once it has its name.  One process at a time writes into a folder that is
locked, on whatever host.
"""

import errno
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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


_LOG = logging.getLogger("thalweg")

#: Seconds from one sign of life of a lock's owner to the next, and those after which an owner
#: without one is dead.
BEAT, LEASE = 5.0, 120.0


class FolderLock:
    """The file ``.lock`` of a folder, which names the host and the process that write there.

    Network file systems need not have locks of their own, so its being there is the lock.  Its
    owner refreshes it.  That of a process which died on this host is taken over at once, and that
    of one on another host, of which nothing else is known, after :data:`LEASE` seconds without a
    sign of life: a batch system may start a killed job again anywhere.  A file that stays empty is
    never taken over: a network file system may show that of a living owner so.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / ".lock"
        self._lease: Any = None

    def acquire(self) -> None:
        """Take the lock; the folder is made if need be.

        An ``InputError`` where its owner lives, as it shows within :data:`BEAT` seconds, or died
        before it wrote its name, and where nothing can be written into the folder.
        """
        from filelock import SoftFileLease, Timeout

        def warn(_: Any) -> None:
            _LOG.warning(
                "the lock of %r was lost, perhaps since this process stood still for %g s: another "
                "may write there, too; stop one of them", str(self.file.parent), LEASE,
            )  # fmt: skip

        lease = SoftFileLease(
            self.file,
            lease_duration=LEASE,
            heartbeat_interval=BEAT,
            on_compromise=warn,
            thread_local=False,
        )
        stamps, began, empty = set(), time.monotonic(), False

        def is_refused() -> bool:
            nonlocal empty
            with suppress(FileNotFoundError):
                facts = self.file.stat()
                stamps.add(facts.st_mtime_ns)
            return (facts.st_size == 0 and time.monotonic() - began > BEAT) or len(stamps) > 1

        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            lease.acquire(timeout=LEASE + BEAT, poll_interval=0.1, cancel_check=is_refused)
        except Timeout as error:
            owner, who = lease.owner, "another process"
            if owner is not None:
                who = f"process {owner.pid} on host {owner.hostname}"
            raise InputError(
                f"{who} is writing into the folder {str(self.file.parent)!r}: wait for its end, "
                f"or choose another folder; if there is no such process, remove {str(self.file)!r}"
            ) from error
        except OSError as error:
            folder = repr(str(self.file.parent))
            raise InputError(f"cannot write into the folder {folder}: {error.strerror}") from error
        self._lease = lease

    def release(self) -> None:
        """Give the lock back, if this object has it."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None
