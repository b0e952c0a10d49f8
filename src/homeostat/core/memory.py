"""What a process does with memory it has freed."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's mallopt
_NEVER = 2**31 - 1


def keep_freed_memory() -> None:
    """Let malloc keep what large tensors give back, instead of asking the system for fresh pages each time.

    An evaluation makes and drops tensors of tens of megabytes all the time, and fresh pages are dear.
    Where the C library has no such setting, nothing happens.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, _NEVER)
