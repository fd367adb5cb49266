"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def written_aside(path: Path | str) -> Iterator[Path]:
    """A path to write to, which takes the wanted name once the block has ended well.

    Nobody ever sees a half-written file, and a failure leaves what was there.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The ending stays, since writers tell the format by it.
    aside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield aside
        os.replace(aside, path)
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()
