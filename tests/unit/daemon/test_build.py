"""Tests of the way from options to a running aggregator.

Everything is put away again, also after a failed start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from telemetry.daemon import run_opening
from telemetry.daemon.build import build
from telemetry.errors import EndpointError, RunDirectoryError
from telemetry.store.run_directory import RunDirectory

WHOLE = """
import json, os, sys
from pathlib import Path
from telemetry.config import load
from telemetry.daemon import DaemonOptions, run_daemon

flags = {"run.refresh_hz": 50, "run.terminal_grace_s": 0.0, "run.percentiles": ["99", "50", "9", "99.9"]}
options = DaemonOptions(
    name="job", run_id="r1", epoch="e1", root=Path("runs"), config=load(flags).config,
    ready_fd=int(sys.argv[1]), command_line=("serve", "--token", "hunter2"),
)
there = {}

def ready(facts):
    there.update(facts, runtime=sorted(os.listdir("telemetry/r1")))
    os.kill(os.getpid(), 15)

written, snapshot = run_daemon(options, ready)
print(json.dumps([written, snapshot.state, snapshot.reason, there, os.listdir("telemetry")]))
"""


def test_a_whole_run_in_one_call(short_dir: Path) -> None:
    """Ready, a signal, the file; the runtime directory is gone afterwards, secrets are masked."""
    reader, writer = os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", WHOLE, str(writer)],
        cwd=short_dir,
        env=os.environ | {"XDG_RUNTIME_DIR": str(short_dir), "XDG_CONFIG_HOME": str(short_dir)},
        pass_fds=(writer,),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writer)
    with os.fdopen(reader) as pipe:
        ready = json.loads(pipe.read())
    assert done.returncode == 0, done.stderr
    written, state, reason, there, runtime = json.loads(done.stdout)
    assert (written, state, reason) == (True, "INTERRUPTED", "stopped by SIGTERM")
    assert runtime == [], "sockets, locks and the announcement are gone"
    assert there.pop("runtime") == sorted(
        [*("ctl", "ev", "sn", "rec"), *("ctl.lock", "ev.lock", "sn.lock", "rec.lock"), "run.json"]
    )
    assert there == ready
    assert (ready["run_id"], ready["name"], ready["epoch"]) == ("r1", "job", "e1")
    directory = RunDirectory.open(Path(ready["dir"]))
    assert directory.read_manifest().argv == ["serve", "--token", "***"]
    assert directory.read_manifest().endpoint == ready["endpoint"]
    assert directory.log.exists()


def test_what_the_configuration_says_is_built(make_service: Any) -> None:
    """Percentiles ascending; no journal and no history if they are off."""
    service = make_service({"run.percentiles": ["99", "50", "9"], "run.window_s": 3})
    assert service.parts.aggregator.series._stats.keys == ("9", "50", "99")
    assert service.snapshot().window_s == 3
    bare = make_service({"journal.enabled": False, "history.enabled": False}, run_id="r2")
    assert (bare.parts.journal, bare.parts.history) == (None, None)
    bare.feed.roll()


def test_an_address_that_is_in_use_leaves_nothing_behind(
    make_service: Any, make_options: Any, short_dir: Path
) -> None:
    """A run that could not begin leaves no run directory and no sockets. The first run is untouched."""
    first = make_service({"transport.bind": f"ipc://{short_dir}/c"})
    (short_dir / "telemetry").mkdir(exist_ok=True)
    before = sorted(path.name for path in short_dir.rglob("*"))
    with pytest.raises(EndpointError, match="in use"):
        build(make_options({"transport.bind": f"ipc://{short_dir}/c"}, run_id="r2"), None)
    assert sorted(path.name for path in short_dir.rglob("*")) == before
    assert first.parts.hub.wait(0.0) is not None


def test_a_path_that_is_too_long_leaves_nothing_behind(
    make_options: Any, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The private directory is removed again."""
    deep = short_dir / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with pytest.raises(EndpointError, match="longer than"):
        build(make_options(), None)
    assert list((deep / "telemetry").iterdir()) == []


@pytest.mark.parametrize("part", ["RunDirectory.create", "RunDirectory.lock", "RecordLog", "HistoryWriter"])
def test_whatever_fails_lets_go_of_the_sockets(
    make_options: Any, short_dir: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The error comes out, and the address can be bound at once."""

    def fail(*_: object, **__: object) -> None:
        raise RunDirectoryError("no")

    with monkeypatch.context() as patch:
        patch.setattr(run_opening.RunDirectory if "." in part else run_opening, part.rpartition(".")[2], fail)
        with pytest.raises(RunDirectoryError):
            build(make_options(), None)
    assert list((short_dir / "telemetry").iterdir()) == []
