"""A fork while another thread uses telemetry for the first time."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, threading, time
import telemetry

importing = threading.Event()

class Slow:
    # holds up the import of one module, so that the fork comes in the middle
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            importing.set()
            time.sleep(0.1)

sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: telemetry.start)
thread.start()
assert importing.wait(60)
pid = os.fork()
if pid == 0:
    signal.alarm(30)  # ends a child that hangs
    telemetry.start
    import telemetry.config.load
    os._exit(0)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize("module", ["telemetry.client", "telemetry.client.process", "telemetry.config.load"])
def test_a_child_can_load_what_another_thread_was_loading(module: str) -> None:
    """A child can load a module that another thread of the parent was loading.

    Otherwise it would wait for ever for a thread that it does not have.
    """
    done = subprocess.run([sys.executable, "-c", PROGRAM, module], capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
