"""The lock of a folder: one process at a time writes there, on whatever host."""

import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from thalweg.errors import InputError

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
                empty = facts.st_size == 0 and time.monotonic() - began > BEAT
            return empty or len(stamps) > 1

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
