"""A call that hangs ends its process, also where it keeps the interpreter to itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.backends.writer.process import HangGuard
from telemetry.backends.writer.tally import WriterTally

HANGS = """
import ctypes, os, sys, time
from telemetry.backends.writer.process import HangGuard
from telemetry.backends.writer.tally import WriterTally
guard = HangGuard(WriterTally("w", "w"), os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 0.1)
for _ in range(3):
    with guard():
        pass
time.sleep(0.3)
print("alive", flush=True)
with guard():
    {call}
"""


@pytest.mark.parametrize(
    "call", ["time.sleep(60)", "ctypes.PyDLL(None).sleep(60)"], ids=["waits", "holds the lock"]
)
def test_a_call_that_hangs_ends_the_process(tmp_path: Path, call: str) -> None:
    """A call that hangs ends the process with code 1 and where it was. Calls that return in time cost nothing."""
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", HANGS.format(call=call), str(log)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "alive\n")
    assert "Timeout" in log.read_text()
    assert 'File "<string>", line 12' in log.read_text()


def test_the_time_of_the_call_that_goes_on_is_known(tmp_path: Path) -> None:
    """The time of a call is known while it goes on, and not after it failed."""
    now = [5.0]
    tally = WriterTally("w", "w", clock=lambda: now[0])
    with (tmp_path / "log").open("w") as log:
        guard = HangGuard(tally, log.fileno())
        with guard():
            now[0] = 7.5
            assert tally.stat().calling_s == 2.5
        with pytest.raises(KeyError), guard():
            raise KeyError
    assert tally.stat().calling_s == 0.0
