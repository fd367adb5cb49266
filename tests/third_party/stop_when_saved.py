"""Run thalweg on this rank; the last rank sends itself SIGTERM once a checkpoint is there.

Usage: stop_when_saved.py CHECKPOINT_FOLDER ITERATIONS ARGUMENT...
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from thalweg.parallel import MPI
from thalweg.workbench.command.main import main


def watch(latest: Path, wanted: int) -> None:
    while True:
        if latest.exists() and int(latest.read_text() or 0) >= wanted:
            os.kill(os.getpid(), signal.SIGTERM)
            return
        time.sleep(0.005)


if MPI.COMM_WORLD.rank == MPI.COMM_WORLD.size - 1:
    arguments = Path(sys.argv[1]) / "latest", int(sys.argv[2])
    threading.Thread(target=watch, args=arguments, daemon=True).start()
sys.exit(main(sys.argv[3:]))
