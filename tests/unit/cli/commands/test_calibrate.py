"""Tests of the arguments that `telemetry calibrate` refuses before it runs anything.

Other tests are in tests/process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no command to run"),
        (["--runs", "1", "--", "true"], "--runs 1 is out of range"),
        (["--runs", "1001", "--", "true"], "from 2 to 1,000"),
        (["--name", "a\nb", "--", "true"], "name"),
    ],
)
def test_what_can_t_be_calibrated(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """A missing command, spread or name is refused, and nothing is run."""
    assert main(["calibrate", *words]) == 2
    assert said in capsys.readouterr().err
    assert not root.exists()
