"""Looking after writers: programs of a few lines that write their status and end."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.cli.beside_run import exports as exporting
from telemetry.cli.beside_run.exports import Exports, Task
from telemetry.errors import UsageError
from telemetry.store.backends import writer_folder
from telemetry.wire.snapshot import BackendStat, BackendState

WRITERS = {
    "good": "sys.exit(0)",
    "bad": "print('telemetry: bad: a reason', file=sys.stderr); sys.exit(6)",
    "none": "sys.exit(2)",
    "bad\0": "",
    "stuck": "time.sleep(60)",
    "deaf": "import signal; signal.signal(15, signal.SIG_IGN); print('deaf', file=sys.stderr); time.sleep(60)",
}


@pytest.fixture(autouse=True)
def small_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(to: str, endpoint: str, directory: str, every_s: float | None) -> list[str]:
        return [sys.executable, "-S", "-c", f"import sys, time; {WRITERS[to]}", to]

    monkeypatch.setattr(exporting, "writer_command", command)


@pytest.fixture
def status(tmp_path: Path) -> Callable[..., None]:
    def write(name: str, state: BackendState, **facts: object) -> None:
        folder = writer_folder(tmp_path, name)
        folder.make()
        folder.write_status(BackendStat(name=name, state=state, **facts))  # type: ignore[arg-type]

    return write


def export(run: Path, *names: str, patience_s: float = 30.0, said: list[str] | None = None) -> Exports:
    tasks = [Task(name, name) for name in names]
    say = (said if said is not None else []).append
    with Exports(tasks, "", run, patience_s=patience_s, say=say) as exports:
        exports.wait()
    return exports


@pytest.mark.parametrize(
    ("names", "code"), [(["good"], 0), (["good", "bad"], 6), (["none"], 2), (["none", "bad", "good"], 6)]
)
def test_the_exit_code_is_that_of_the_worst(tmp_path: Path, names: list[str], code: int) -> None:
    """2 only if nothing but usage is wrong."""
    assert export(tmp_path, *names).code == code


def test_what_became_of_each_is_told(
    tmp_path: Path, status: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A table tells what became of each writer and what to do. A writer without an end gets one."""
    place = f"/{'deep' * 40}/data"
    status("good", "done", written=1_234, place=place)
    status("bad", "undelivered", queued=7, written=2)
    said: list[str] = []
    exports = export(tmp_path, "good", "bad", "none", said=said)
    assert [(stat.name, stat.state) for stat in exports.stats] == [
        ("good", "done"),
        ("bad", "undelivered"),
        ("none", "failed"),
    ]
    exports.tell(io.StringIO())
    err = capsys.readouterr().err
    assert "good     done           1,234     0" in err
    assert f"\ngood: see {place}\n" in err  # however wide the terminal is
    assert "bad: a reason" in said
    assert f"bad: 7 records are not delivered; telemetry export --resume {tmp_path}" in said


def test_who_delivers_nothing_is_not_waited_for_for_ever(tmp_path: Path, status: Callable[..., None]) -> None:
    """A writer that delivers nothing is asked to end, and is killed if it does not."""
    status("stuck", "retrying", queued=3)
    said: list[str] = []
    begin_s = time.monotonic()
    exports = export(tmp_path, "stuck", patience_s=0.2, said=said)
    assert time.monotonic() - begin_s < 10.0
    assert (exports.code, exports.stats[0].state) == (6, "undelivered")
    assert any("stopped waiting" in words for words in said)


def test_words_that_no_process_takes_leave_none_behind(tmp_path: Path) -> None:
    """Words that no process takes come from a damaged file. Writers that were started before them are ended."""
    started = Exports([Task("deaf", "deaf"), Task("x", "bad\0")], "", tmp_path, patience_s=1.0)
    with pytest.raises(UsageError, match="can't start the writer x: embedded null byte"), started:
        pytest.fail("it began")
    assert all(one.ended for one in started._writers.values())


@pytest.mark.slow
def test_who_does_not_listen_is_killed(tmp_path: Path) -> None:
    """A writer that ignores the request to end is killed after a few seconds."""
    said: list[str] = []
    with Exports([Task("deaf", "deaf")], "", tmp_path, patience_s=1.0, say=said.append) as exports:
        while "deaf" not in said:
            time.sleep(0.01)
    assert exports.code == 6


def test_a_live_run_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long nothing comes: until its aggregator has gone and left a result, or does not come back."""
    listening = [True]
    monkeypatch.setattr(exporting, "refuses", lambda endpoint: not listening[0])
    exports = Exports([], "ipc:///x", tmp_path, patience_s=0.0)
    assert not exports._over(1_000.0)
    listening[0] = False
    assert not exports._over(2_000.0)
    assert not exports._over(2_005.0)
    assert exports._over(2_011.0)
    listening[0] = True
    assert not exports._over(2_012.0)
    listening[0] = False
    (tmp_path / "final_snapshot.json").touch()
    assert exports._over(2_013.0)
