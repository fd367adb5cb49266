"""What a process holds in memory."""

import ctypes
from pathlib import Path


def held(name: str) -> float:
    """Bytes of this process in memory: ``VmRSS`` now, ``VmHWM`` at most since the last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024.0 * float(line.split()[1])
    raise OSError(f"/proc/self/status has no {name}: memory is measured on Linux alone")


def reset_peak() -> float:
    """Bytes of this process in memory, from which ``VmHWM`` counts anew."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return held("VmRSS")
