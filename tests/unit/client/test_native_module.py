"""The choice between the compiled recorder and that in Python."""

from __future__ import annotations

import subprocess
import sys
import sysconfig

import pytest

from telemetry.client import native_module

_RECORDS = """
import sys
is_locked = getattr(sys, "_is_gil_enabled", lambda: True)
before = is_locked()
import telemetry
telemetry.counter("n").add()
telemetry.requests("r").issue().complete()
print(is_locked() == before)
"""


def test_a_free_threaded_interpreter_is_told_by_its_flags() -> None:
    """The flags of the interpreter give the same answer as its build settings. Those take longer to import."""
    assert native_module.IS_FREE_THREADED is bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def test_a_free_threaded_interpreter_gets_the_recorder_in_python(
    native: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A free-threaded interpreter gets the recorder in Python, even if the other one was compiled."""
    assert native_module._compiled() is not None
    monkeypatch.setattr(native_module, "IS_FREE_THREADED", True)
    assert native_module._compiled() is None


def test_a_program_keeps_its_lock_as_it_is() -> None:
    """The interpreter warns when a module turns the lock on, and the warning would end this program."""
    command = [sys.executable, "-W", "error", "-c", _RECORDS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
