"""Tests of which run is watched, and how: on a screen, in lines, once, or in a browser."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.cli.commands import top
from telemetry.cli.main import main
from telemetry.errors import RunDirectoryError, RunNotFoundError, UsageError
from telemetry.store.live_runs import LiveRun, announce
from telemetry.store.run_directory import RunDirectory
from telemetry.transport import runtime_directory

STARTED_NS = 1_772_366_400_000_000_000
MakeRun = Callable[..., RunDirectory]


def live(
    name: str, run_id: str, state: str = "LIVE", later_s: int = 0, directory: Path = Path("/elsewhere/run")
) -> LiveRun:
    """A run that this process is said to have."""
    run = LiveRun(
        run_id=run_id,
        name=name,
        pid=os.getpid(),
        endpoint=f"ipc:///nowhere/{run_id}",
        dir=str(directory),
        state=state,  # type: ignore[arg-type]
        started_ns=STARTED_NS + later_s * 10**9,
    )
    announce(runtime_directory(), run)
    return run


STUCK = """
import asyncio, time
from telemetry.cli.commands.top import _until_left

class Stuck:
    async def run_async(self):
        await asyncio.sleep(0)
        print("waits", flush=True)
        time.sleep(60)

asyncio.run(_until_left(Stuck(), 0))
"""
"""A cockpit whose event loop waits for a terminal that takes no more output."""


class Typed(io.StringIO):
    """A terminal with a person at it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("words", [["top"], ["top", "--plain"], ["top", "job", "--plain"]])
def test_a_finished_run_in_lines(make_run: MakeRun, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A finished run gives its last line and its result on stdout.

    Without a terminal that is the default, and a note tells so.
    """
    directory = make_run("job", "aaaa1111")
    assert main(words) == 0
    captured = capsys.readouterr()
    line, headline = captured.out.splitlines()
    assert line == "0:00  requests 7"
    assert headline == "complete: job, 7 of 7 events applied, 0 lost"
    assert ("no terminal" in captured.err) == ("--plain" not in words)
    assert (f"no live run; showing the newest run, {directory.path}" in captured.err) == ("job" not in words)


def test_once_is_the_report_so_far(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """The option `--once` gives all tables as text, or the same JSON as `status --json`."""
    make_run("job", "aaaa1111")
    assert main(["top", "job", "--once"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("complete: job, 7 of 7 events applied, 0 lost\n")
    assert "Counters" in text
    assert main(["top", "--once", "--json"]) == 0
    once = capsys.readouterr().out
    assert main(["status", "--json"]) == 0
    assert json.loads(once) == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--json"], "--json requires --once"),
        (["--port", "9000"], "--port requires --web"),
        (["--once", "--baseline", "x"], "--baseline works only in the cockpit"),
        (["--plain", "--baseline", "x"], "--baseline works only in the cockpit"),
        (["--baseline", "x"], "--baseline works only in the cockpit, which needs a terminal"),
        (["--web", "--port", "0"], "is not a port number"),
        (["--web", "--port", "x"], "is not a port number"),
        (["--plain", "--web"], "not allowed with"),
    ],
)
def test_options_without_effect_are_refused(
    make_run: MakeRun, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 before anything is looked at."""
    make_run("job", "aaaa1111")
    assert main(["top", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err


def test_no_run_at_all(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says where runs were looked for."""
    assert main(["top"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert f"there are no runs in {root}" in captured.err


def test_a_run_that_is_not_there_is_all_that_is_said(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing run is the only report: there is no word about the form of lines that never come."""
    make_run("late", "aaaa1111")
    assert main(["top", "lates"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("telemetry: no run 'lates'")


@pytest.mark.parametrize("words", [["top", "killed"], ["top", "killed", "--once"], ["top", "killed", "--web"]])
def test_a_dead_run_says_how_to_recover_it(
    make_run: MakeRun, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """There is nothing to show before that."""
    make_run("killed", "bbbb2222", ended=False, journal=True)
    assert main(words) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "telemetry recover " in captured.err


@pytest.mark.parametrize("how", ["--plain", "--once", "--web"])
def test_nobody_at_the_address(root: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped address is an error at once, not a screen that waits."""
    assert main(["top", f"ipc://{root}/nobody", how]) == 1
    assert "no aggregator listens at ipc://" in capsys.readouterr().err


def test_several_live_runs_are_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Live runs are listed, newest first and as many as fit, if the user can't be asked for one."""
    for number in range(7):
        live(f"job{number}", f"aaaa{number}", later_s=number)
    assert main(["top", "--plain"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "7 runs are live: job6 (aaaa6), job5 (aaaa5), " in captured.err
    assert "job2 (aaaa2) and 2 more" in captured.err


def test_the_only_live_run_is_meant(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has ended and lingers is no choice beside one that goes on."""
    live("over", "aaaa1111", "COMPLETE", later_s=9)
    going = live("going", "bbbb2222")
    followed = []
    monkeypatch.setattr("telemetry.cli.plain_viewer.follow", lambda target: followed.append(target) or 0)
    assert main(["top", "--plain"]) == 0
    assert followed[0].endpoint == going.endpoint


def test_a_folder_that_is_named_holds_the_run_that_is_meant(
    root: Path, make_run: MakeRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live run elsewhere is not shown in its place; one in it is."""
    live("elsewhere", "aaaa1111")
    followed: list[str] = []
    monkeypatch.setattr("telemetry.cli.plain_viewer.follow", lambda target: followed.append(target.spec) or 0)
    for folder in ("nowhere", "empty"):
        (root.parent / "empty").mkdir(exist_ok=True)
        assert main(["top", "--plain", "--dir", folder]) == 1
        assert f"there are no runs in {root.parent / folder}" in capsys.readouterr().err
    ended = make_run("job", "bbbb2222")
    assert main(["top", "--plain", "--dir", str(root)]) == 0
    live("here", "cccc3333", directory=root / "here-20260301T120000Z-cccc3333")
    assert main(["top", "--plain", "--dir", str(root)]) == 0
    assert followed == [str(ended.path), "cccc3333"]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (
            'keys = { figurs = "f" }',
            "tui.keys (telemetry.toml): unknown action 'figurs' (did you mean figures?)",
        ),
        ('theme = "textual-drak"', "tui.theme (telemetry.toml): unknown theme 'textual-drak' (did you mean"),
        ('theme = "zzz"', "tui.theme (telemetry.toml): unknown theme 'zzz' (the themes are ansi-dark, "),
    ],
)
def test_a_setting_that_is_wrong_is_said_with_its_place(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], setting: str, says: str
) -> None:
    """A wrong setting of the cockpit is reported with its place, like all other settings."""
    make_run("job", "aaaa1111")
    Path("telemetry.toml").write_text(f"[tui]\n{setting}\n")
    monkeypatch.setattr(top, "has_screen", lambda *, served: True)
    assert main(["top", "job"]) == 2
    assert says in capsys.readouterr().err


def test_a_stuck_cockpit_ends_with_its_terminal() -> None:
    """The end needs neither SIGHUP, which comes to the leader of a session alone, nor the event loop."""
    outside, inside = os.openpty()
    with subprocess.Popen([sys.executable, "-c", STUCK], stdin=inside, stdout=subprocess.PIPE) as viewer:
        os.close(inside)
        assert viewer.stdout is not None
        assert viewer.stdout.readline() == b"waits\n"
        os.close(outside)
        try:
            assert viewer.wait(5.0) == 128 + signal.SIGHUP
        finally:
            viewer.kill()


def test_a_person_is_asked(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A number; nothing is the first; what is no number of the list is asked again; no answer is an error."""
    runs = [live("one", "aaaa1111"), live("\x1b[31mtwo", "bbbb2222")]
    for typed, chosen in (("2\n", 1), ("\n", 0), ("0\nthree\n3\n1\n", 0)):
        monkeypatch.setattr("sys.stdin", Typed(typed))
        assert top.choose(runs) is runs[chosen]
    shown = capsys.readouterr().err
    assert "  1  one" in shown
    assert "\x1b" not in shown
    assert shown.count("which run? 1–2 [1]: ") == 6
    monkeypatch.setattr("sys.stdin", Typed(""))
    with pytest.raises(UsageError, match="no run was chosen"):
        top.choose(runs)


def test_baselines_are_results_of_other_runs(make_run: MakeRun, root: Path) -> None:
    """The newest first, with what tells them apart; those without a readable result are left out."""
    own = make_run("job", "aaaa1111")
    other = make_run("job", "bbbb2222", completeness="lossy")
    make_run("going", "cccc3333", ended=False)
    make_run("broken", "dddd4444").final.write_text("{")
    assert top.baselines(root, (), own) == [(str(other.path), "job  2026-03-01 12:00:00 UTC  lossy")]
    assert {spec for spec, _ in top.baselines(root, (), None)} == {str(own.path), str(other.path)}
    assert top.load_baseline(root, (), str(other.path)).snapshot.run_id == "bbbb2222"
    with pytest.raises(RunNotFoundError):
        top.load_baseline(root, (), "nobody")
    with pytest.raises(RunDirectoryError):
        top.load_baseline(root, (), "going")


@pytest.mark.parametrize(
    ("terminals", "term", "screen"),
    [
        ("stdin stdout stderr", "xterm", True),
        ("stdin stdout stderr", "dumb", False),
        ("stdin stderr", "xterm", False),
        ("stdin stdout", "xterm", False),
        ("stdout stderr", "xterm", False),
    ],
)
def test_where_a_screen_can_be_drawn(
    monkeypatch: pytest.MonkeyPatch, terminals: str, term: str, *, screen: bool
) -> None:
    """A screen needs a terminal that can draw, with no stream sent elsewhere.

    In a browser it is always possible.
    """
    monkeypatch.setenv("TERM", term)
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", Typed() if name in terminals.split() else io.StringIO())
    assert top.has_screen(served=False) is screen
    assert top.has_screen(served=True)
