"""Tests that docs/COCKPIT.md names the keys, settings and options there are."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

from telemetry.cli.browser import launch
from telemetry.cli.commands import top
from telemetry.config import TuiConfig, load
from telemetry.tui import keys

TEXT = (Path(__file__).parents[2] / "docs" / "COCKPIT.md").read_text()


def rows(first_header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so."""
    table = TEXT.partition(f"| {first_header} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_action_has_its_row() -> None:
    """Each action has a row with the screens on which it is live, in the order of the table of keys."""
    written = [(quoted(action)[0], where) for action, _, where, _ in rows("action")]
    places = {key.id: "everywhere" if key.on == keys.PLACES else ", ".join(key.on) for key in keys.TABLE}
    assert dict(written) == places
    assert len(written) == len(places)


def test_keys_are_the_defaults_and_can_be_written_so() -> None:
    """The page names keys as the configuration does, and shows the default keys."""
    written = {quoted(action)[0]: ",".join(quoted(cell)) for action, cell, _, _ in rows("action")}
    assert keys.keymap(written) == keys.keymap({})


def test_settings_have_their_defaults() -> None:
    """All of the section, and no other."""
    written = {quoted(setting)[0]: quoted(default)[0] for setting, default, _ in rows("setting")}
    plain = TuiConfig()
    assert written == {
        "tui.theme": plain.theme,
        "tui.frames_per_s": f"{plain.frames_per_s:g}",
        "tui.keys": str(plain.keys),
    }


def test_the_example_of_settings_is_valid(tmp_path: Path) -> None:
    """The example of settings can be copied."""
    example = TEXT.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "telemetry.toml").write_text(example)
    config = load(cwd=tmp_path, environ={}).config.tui
    assert set(tomllib.loads(example)["tui"]) == {"theme", "frames_per_s", "keys"}
    assert set(keys.keymap(config.keys).values()) >= {"f", "ctrl+f,f5"}
    (environment,) = re.findall(r"TELEMETRY_TUI__KEYS='([^']+)'", TEXT)
    load(cwd=tmp_path, environ={"TELEMETRY_TUI__KEYS": environment})


def test_options_exist() -> None:
    """Each `--option` after `telemetry top`, and the port of `--web`."""
    parser = argparse.ArgumentParser()
    top.add_arguments(parser)
    known = {flag for action in parser._actions for flag in action.option_strings}
    named = {flag for line in re.findall(r"telemetry top ([^`\n#|]*)", TEXT) for flag in re.findall(r"--\w+", line)}
    assert {"--plain", "--once", "--json", "--web", "--baseline"} <= named
    assert named - known == set()
    assert {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", TEXT)} == {launch.PORT}
