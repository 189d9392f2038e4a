"""The function that Lightning calls for each Trainer, in programs without Lightning."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASK = """
import sys
from telemetry.integrations.plugins.lightning import callbacks
assert callbacks() == [] and callbacks() == []
print("client" if "telemetry.client" in sys.modules else "light")
finder = getattr(sys.modules.get("_telemetry_boot"), "FINDER", None)
print(sorted(finder.hooks) if finder else [])
"""
BROKEN = "import sys; sys.modules['telemetry.integrations.lightning'] = None\n"


def ask(program: str, capture: str) -> tuple[list[str], str]:
    """Return the lines of a program, and what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TELEMETRY_CAPTURE": capture},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("capture", ["", "tensorboard", "lightningish"])
def test_it_loads_nothing_unless_lightning_is_captured(capture: str) -> None:
    """A program that is not captured pays for one small import."""
    assert ask(ASK, capture) == (["light", "[]"], "")


def test_it_waits_for_lightning_and_returns_no_callbacks() -> None:
    """The plugin installs the capture for both packages of Lightning and returns no callbacks."""
    lines, err = ask(ASK, "lightning")
    assert lines == ["client", "['lightning.pytorch.trainer.trainer', 'pytorch_lightning.trainer.trainer']"]
    assert err == ""


def test_a_fault_is_reported_and_never_raised() -> None:
    """Lightning would end the program otherwise."""
    lines, err = ask(BROKEN + ASK, "lightning")
    assert lines[0] == "light"
    assert err.startswith("telemetry: lightning is not captured: ")
