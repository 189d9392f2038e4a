"""Commands in a folder with a user's file that has the name of our package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.process.conftest import Ground

SCRIPT = Path(sys.executable).parent / "telemetry"


@pytest.mark.parametrize("words", [("doctor",), ("demo", "--requests", "50"), ("run", "--quiet", "--", "true")])
def test_a_file_with_our_name_is_not_loaded(ground: Ground, words: tuple[str, ...]) -> None:
    """Processes that the command starts load the package."""
    ground.program("telemetry.py", "raise SystemExit('the file of the user')\n")
    child = ground.popen(str(SCRIPT), *words)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, out + err
    assert "the file of the user" not in out + err
