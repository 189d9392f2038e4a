"""Tests of the memory of commands that end soon."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys

import pytest

from telemetry.common import memory

PROGRAM = """
import resource
from telemetry.common.memory import keep_freed
told = keep_freed()
def touch():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        block = bytearray(b"x") * (8 << 20)
        del block
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
touch()
print(told, touch())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the settings")
def test_freed_memory_is_used_again() -> None:
    """Blocks of 8 MiB cost no page faults once there was one: else each would cost 2,000."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    told, faults = done.stdout.split()
    assert told == "True"
    assert int(faults) < 2_000


def test_the_collector_is_on_again_afterwards() -> None:
    """The collector is on afterwards if it was on before."""
    with memory.uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with memory.uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
