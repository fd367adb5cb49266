"""Disks that are full, at every step of writing.

The system calls that write are made to fail with "No space left on device" from the n-th on, for
every n, on a random rank, and work again later.  A run goes on without checkpoints and says
so; the final write ends it with one sentence and exit code 2; what was written before is whole, and
once there is room the run is resumed to the same bits.
"""

import builtins
import errno
import os
from pathlib import Path

import numpy as np
import pytest

import thalweg
from thalweg.errors import StorageError

CONFIG = {
    "data": {"name": "digits", "rows": 40},
    "objective": {"name": "elastic-embedding", "perplexity": 6},
    "output": {"pictures": False},
}


class Disk:
    """Lets ``room`` calls of write, truncate, fsync and mkdir succeed, then none."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, room: int) -> None:
        self.room, self.folder = room, str(folder)
        real = builtins.open
        disk = self

        class Full:
            """A file that counts what is written to it."""

            def __init__(self, stream):
                self.stream = stream

            def write(self, content):
                disk.take()
                return self.stream.write(content)

            def truncate(self, *size):
                disk.take()
                return self.stream.truncate(*size)

            def __getattr__(self, name):
                return getattr(self.stream, name)

            def __enter__(self):
                return self

            def __exit__(self, *error):
                self.stream.close()

        def opened(path, mode="r", *more, **options):
            stream = real(path, mode, *more, **options)
            writes = set(mode) & set("wax+") and str(path).startswith(self.folder)
            return Full(stream) if writes else stream

        patch.setattr(builtins, "open", opened)
        for name in ("fsync", "mkdir"):
            patch.setattr(os, name, self._counted(getattr(os, name)))
        for name in ("write_text", "write_bytes"):
            patch.setattr(Path, name, self._counted(getattr(Path, name)))

    def _counted(self, real):
        def call(*arguments, **options):
            self.take()
            return real(*arguments, **options)

        return call

    def take(self) -> None:
        self.room -= 1
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _run(comm, folder, iterations, resume, interval=0.0):
    config = {**CONFIG, "stop": {"iterations": iterations, "decrease": "none"}}
    return thalweg.run(
        {**config, "run": {"checkpoint": interval}}, folder, resume=resume, comm=comm
    )


@pytest.mark.ranks(1, 2)
def test_a_disk_that_fills_up_costs_nothing_that_was_written(comm, tmp_path_factory):
    base = comm.bcast(tmp_path_factory.mktemp("disk") if comm.rank == 0 else None)
    whole = _run(comm, base / "whole", 8, False, 1e9)
    for room in (*range(0, 40, 3), *range(40, 160, 13)):
        folder = base / f"room-{room}"
        _run(comm, folder, 3, False)
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch, folder, room if comm.rank == room % comm.size else 10**9)
            try:
                result = _run(comm, folder, 6, True)
                said = "" if result.saved else result.notes[0]
            except StorageError as error:
                said = str(error)
        assert not said or "No space left on device" in said
        assert "\n" not in said
        comm.Barrier()
        assert sorted(path.name for path in folder.rglob("*.partial")) == []
        resumed = _run(comm, folder, 8, True)
        np.testing.assert_array_equal(resumed.x, whole.x)
        comm.Barrier()
        assert np.array_equal(np.load(folder / "solution.npy"), whole.gather())
