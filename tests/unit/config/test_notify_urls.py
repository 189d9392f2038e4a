"""Addresses of receivers: split, handed on, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.config.describe import settings, to_toml, without_secrets
from telemetry.config.load import load
from telemetry.config.notify_urls import joined, masked, split
from telemetry.config.notify_urls import without_secrets as words_without_secrets
from telemetry.errors import ConfigError

URLS = ["slack://T1/A2/s3cret", "mailto://me:s3cret@mail?to=a@b,c@d", "json://h/?a=1,2"]


@pytest.mark.parametrize("between", [",", ", ", "\n", " "])
def test_addresses_are_split_and_joined(between: str) -> None:
    """A comma inside an address stays."""
    assert split(between.join(URLS)) == URLS
    assert split(joined(URLS)) == URLS
    assert split(f" {between} ") == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [("slack://T1/A2", "slack://***"), ("s3cret", "***"), (" ntfy://x", "ntfy://***"), ("a:s3cret@b", "***")],
)
def test_only_the_service_is_shown(url: str, shown: str) -> None:
    """A masked address hides the host, too: for many services it is the secret."""
    assert masked(url) == shown


def test_command_lines_are_masked() -> None:
    """Both spellings of the option, and the word of no other option."""
    words = ["t", "run", "--notify", URLS[0], f"--notify={URLS[1]}", "--name", "x://y", "--notify", "s3cret"]
    assert words_without_secrets(words) == [
        *("t", "run", "--notify", "slack://***", "--notify=mailto://***", "--name", "x://y", "--notify", "***"),
    ]


def test_settings_come_from_the_environment_and_are_shown_masked(tmp_path: Path) -> None:
    """`telemetry config show`, the manifest, and errors."""
    loaded = load(cwd=tmp_path, environ={"TELEMETRY_NOTIFY__URLS": joined(URLS)})
    assert list(loaded.config.notify.urls) == URLS
    shown = [one for one in settings(loaded) if one.key == "notify.urls"]
    text = f"{to_toml(loaded)} {shown} {without_secrets(loaded.config)}"
    assert "s3cret" not in text
    assert text.count("slack://***") == 3
    with pytest.raises(ConfigError) as error:
        load(cwd=tmp_path, environ={"TELEMETRY_NOTIFY__URLS": "x://s3cret" * 10_000})
    assert "s3cret" not in str(error.value)
    assert "notify.urls" in str(error.value)
    with pytest.raises(ConfigError):
        load(cwd=tmp_path, environ={"TELEMETRY_NOTIFY__EVENTS": "gate,nosuch"})
