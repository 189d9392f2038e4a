"""Tests of the memory that large temporaries leave behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import numpy as np
from telemetry.daemon.cost import rss_bytes
from telemetry.common.memory import keep_small

if sys.argv[1] == "yes":
    assert keep_small()
np.ones(3 << 20).sum()  # glibc learns to keep arrays of this size …
held = [np.ones(1 << 17) for _ in range(64)]  # … and these, 1 MiB each, then go where freed ones stay
last = np.ones(16)
before = rss_bytes()
held.clear()
print(before - rss_bytes())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory can't be read here")
def test_freed_arrays_go_back_to_the_system() -> None:
    """64 MiB in arrays of a turn's size are given back, whatever was freed before."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "yes"], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) > 48 << 20


HOLES = """
import numpy as np
from telemetry.daemon.cost import rss_bytes
from telemetry.common.memory import give_back, keep_small

assert keep_small()
pieces = [np.ones(1 << 14) for _ in range(512)]  # 128 KiB each, one after the other
held = pieces[::16]
del pieces
before = rss_bytes()
assert give_back()
print(before - rss_bytes())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory can't be read here")
def test_what_is_free_between_what_is_held_can_be_given_back() -> None:
    """Most of 64 MiB, of which a sixteenth is still in use."""
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) > 32 << 20
