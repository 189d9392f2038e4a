"""Signals as bytes, in a process of their own: handlers belong to the whole process."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, select, signal
from telemetry.daemon.signal_pipe import SignalPipe

pipe = SignalPipe()
assert pipe.take() == []
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    os.kill(os.getpid(), number)
assert select.select([pipe.fd], [], [], 10)[0], "the descriptor wakes the poll"
print([number.name for number in pipe.take()])
assert pipe.take() == []
signal.signal(signal.SIGUSR1, lambda *_: None)
os.kill(os.getpid(), signal.SIGUSR1)
print(pipe.take())
reader, writer = os.pipe()
os.close(reader)
try:
    os.write(writer, b"x")
except BrokenPipeError:
    print("no SIGPIPE")
for _ in range(100_000):
    os.kill(os.getpid(), signal.SIGTERM)
print(set(pipe.take()) == {signal.SIGTERM})
"""


IGNORING = """
import os, signal
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
from telemetry.daemon.signal_pipe import SignalPipe

pipe = SignalPipe()
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    os.kill(os.getpid(), number)
print([number.name for number in pipe.take()])
"""


def test_what_is_ignored_from_the_start_stays_so() -> None:
    """`nohup telemetry serve &` outlives its terminal; SIGTERM always ends it."""
    done = subprocess.run([sys.executable, "-c", IGNORING], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "['SIGTERM']\n", done.stderr


def test_signals_become_bytes() -> None:
    """Each ending signal is read once, others are none of its business, and a flood of them blocks nobody."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['SIGTERM', 'SIGHUP', 'SIGINT']", "[]", "no SIGPIPE", "True"]
