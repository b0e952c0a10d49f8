"""Freed memory stays with the process, so that large tensors do not cost fresh pages each time."""

from __future__ import annotations

import subprocess
import sys

import pytest

PAGES = """
import resource
from homeostat.core.memory import keep_freed_memory
if {keep}:
    keep_freed_memory()
for _ in range(20):
    bytearray(50_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_large_objects_are_given_pages_once() -> None:
    def faults(keep: bool) -> int:
        code = PAGES.format(keep=keep)
        return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)

    pages = 50_000_000 // 4096
    assert faults(keep=True) < faults(keep=False) - 10 * pages
