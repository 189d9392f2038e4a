"""The settings of redaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.config import load
from telemetry.config.describe import to_toml, without_secrets
from telemetry.errors import ConfigError


def test_patterns_stand_one_on_a_line_in_the_environment(tmp_path: Path) -> None:
    """A pattern may contain a comma."""
    environ = {"TELEMETRY_REDACT__PATTERNS": "a=x{1,3}\n\nb=y", "TELEMETRY_REDACT__PERSONAL": "true"}
    redact = load(cwd=tmp_path, environ=environ).config.redact
    assert (redact.secrets, redact.personal, redact.patterns) == (True, True, ("a=x{1,3}", "b=y"))


@pytest.mark.parametrize("patterns", [["x"], ["x=("], ["x=a*"], ["github=x"], ["x=a", "x=b"]])
def test_wrong_patterns_are_refused_at_the_start(tmp_path: Path, patterns: list[str]) -> None:
    """The error names the setting with the wrong pattern."""
    with pytest.raises(ConfigError, match=r"redact\.patterns"):
        load({"redact.patterns": patterns}, cwd=tmp_path, environ={})


def test_patterns_are_shown_to_their_user_and_not_written_to_files(tmp_path: Path) -> None:
    """`telemetry config show` has them. The manifest has their names: a pattern may spell out what it hides."""
    loaded = load({"redact.patterns": ["codename=project bluebird"]}, cwd=tmp_path, environ={})
    assert 'patterns = ["codename=project bluebird"]' in to_toml(loaded)
    assert without_secrets(loaded.config)["redact"]["patterns"] == ["codename=***"]
