"""`telemetry open`: where the page is written, and when a browser is asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.cli.commands.open import has_display
from telemetry.cli.main import main
from telemetry.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def test_the_page_is_in_the_run_and_a_browser_gets_it(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A real program in place of the browser gets the address of a private file."""
    directory, asked = make_run("job", "aaaa1111"), tmp_path / "asked"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {asked}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    assert main(["open", "job"]) == 0
    page = directory.path / "report.html"
    assert capsys.readouterr() == (f"{page}\n", "")
    assert asked.read_text() == page.as_uri()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_without_a_display_the_path_is_printed(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path is printed if there is no display, as over ssh. No browser of the terminal is started."""
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    directory = make_run("job", "aaaa1111")
    assert main(["open"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{directory.path / 'report.html'}\n"
    assert "there is no display here" in err
    monkeypatch.setenv("BROWSER", "/nonexistent/browser")
    assert main(["open", "--no-browser"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "firefox"}, "linux", True),
        ({}, "darwin", True),
        ({"SSH_CONNECTION": "a b"}, "darwin", False),
    ],
)
def test_what_counts_as_a_display(environ: dict[str, str], platform: str, expected: bool) -> None:
    """A window system, or a browser that the user has named."""
    assert has_display(environ, platform) is expected


def test_a_run_that_cannot_be_written_to_has_a_temporary_page(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory of a run may belong to another user, or be read-only."""
    directory = make_run("job", "aaaa1111")
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != directory.path)
    assert main(["open", "--no-browser"]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert page.parent.name.startswith("telemetry-")
    assert page.exists()
    assert not (directory.path / "report.html").exists()
