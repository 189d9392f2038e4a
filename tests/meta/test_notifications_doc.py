"""Tests that docs/NOTIFICATIONS.md has the events, settings, limits and addresses there are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from telemetry import limits
from telemetry.backends.notify.apprise_receiver import problems
from telemetry.config.schema import BackendsConfig, EventName, NotifyConfig

TEXT = (Path(__file__).parents[2] / "docs" / "NOTIFICATIONS.md").read_text()
WORDS = " ".join(TEXT.split())


def rows(first_header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so, without the header."""
    table = TEXT[TEXT.index(f"| {first_header} |") :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def test_every_event_has_a_row_with_its_default() -> None:
    """Each event has a row with its default, in the order of the settings."""
    found = {row[0].strip("`"): row[1] for row in rows("event")}
    assert list(found) == list(get_args(EventName))
    assert [name for name, default in found.items() if default == "on"] == list(NotifyConfig().events)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # plug-ins of Apprise, as they are imported
def test_every_address_is_one_that_apprise_takes() -> None:
    """All can be pasted."""
    found = [row[1].strip("`") for row in rows("receiver")] + re.findall(r"--notify '?([^\s']+://[^\s']+)", TEXT)
    assert len(found) > 9
    assert problems(found) == []


def test_the_settings_can_be_read() -> None:
    """The example has all there are."""
    (text,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    table = tomllib.loads(text)["notify"]
    msgspec.convert(table, NotifyConfig)
    assert set(table) == set(NotifyConfig.__struct_fields__)


def test_limits_are_those_of_the_code() -> None:
    """The numbers in the page are the limits of the code."""
    for said in (
        f"for {NotifyConfig().stalled_s:g} seconds (`notify.stalled_s`)",
        f"at most {limits.NOTIFY_PER_MINUTE} messages a minute",
        f"more than {limits.NOTIFY_WAITING} messages wait",
        f"after {limits.BACKEND_RETRY_S} s, then twice as long each time up to {limits.BACKEND_RETRY_MOST_S:g} s",
        f"`backends.finish_timeout_s`, {BackendsConfig().finish_timeout_s:g} seconds",
    ):
        assert said in WORDS, said
