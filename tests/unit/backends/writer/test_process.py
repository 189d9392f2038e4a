"""The process of a writer, from its folder to its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.store.backends import WriterCheckpoint, WriterFacts, WriterFolder, writer_folder
from telemetry.wire.exit_codes import Exit
from telemetry.wire.snapshot import BackendStat

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
PROGRAM = """
import sys
from pathlib import Path
from telemetry.backends.sources.source import Position
from telemetry.backends.writer.process import WriterTask, write_run
from tests.unit.backends.doubles import FACTS, step
from tests.unit.backends.writer.test_reader import ListSource

class Source(ListSource):
    def __init__(self, position):
        super().__init__(20)
        self._left = self._left[position.next_record:]
        self.position = position
    def read(self, most, timeout_s):
        if WAITS and self.position.next_record == 10:
            return []
        found = super().read(10, timeout_s)
        self.over = self.position.next_record >= 20
        if self.over:
            self.position = Position(next_record=20, final_done=FINAL)
        return found

if "hangs" in sys.argv:
    import time
    from telemetry import limits
    from telemetry.backends import choice
    limits.BACKEND_CALL_S = 0.2
    choice.make = lambda *_: time.sleep(60)

WAITS, FINAL = "waits" in sys.argv, "dead" not in sys.argv
def source(backend, position):
    print("chatter", flush=True)
    if "crash" in sys.argv:
        raise ZeroDivisionError("oh")
    return Source(position)
sys.exit(write_run(WriterTask(sys.argv[2], Path(sys.argv[1]), source)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> WriterFolder:
    return writer_folder(tmp_path, "jsonl")


def start(run: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(run), *(words or ("jsonl",))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=run,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def write(run: Path, *words: str) -> tuple[int, str, str]:
    child = start(run, *words)
    out, err = child.communicate(timeout=60)
    return child.returncode, out, err


def steps(folder: WriterFolder) -> list[int]:
    return [json.loads(line)["step"] for line in (folder.data / "items.jsonl").read_text().splitlines()]


def test_a_run_is_written_once(tmp_path: Path, folder: WriterFolder) -> None:
    """The folder has the settings, progress and result of a writer. A second process has nothing to do."""
    assert write(tmp_path) == (Exit.OK, "", "telemetry: jsonl: a note\n")
    stat, facts = folder.read_status(), folder.read_facts()
    assert stat is not None
    assert (stat.state, stat.written, stat.next_record, stat.restarts) == ("done", 20, 20, 0)
    assert facts == WriterFacts(name="jsonl", kind="jsonl", to="jsonl", cwd=os.path.realpath(tmp_path))
    assert folder.read_checkpoint().done
    assert "chatter" in folder.log.read_text()
    assert write(tmp_path) == (Exit.OK, "", "")
    assert steps(folder) == list(range(20))


def test_a_stop_leaves_the_rest(tmp_path: Path, folder: WriterFolder, wait_until: Callable[..., object]) -> None:
    """SIGTERM: a checkpoint, and code 6; another goes on there."""
    child = start(tmp_path, "jsonl", "waits")
    wait_until(lambda: folder.checkpoint.exists() and folder.read_checkpoint().position["next_record"] == 10, 30.0)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=30)
    stat = folder.read_status()
    assert stat is not None
    assert (child.returncode, stat.state, stat.queued) == (Exit.BACKEND_FAILED, "undelivered", 10)
    assert write(tmp_path)[0] == Exit.OK
    assert steps(folder) == list(range(20))
    stat = folder.read_status()
    assert stat is not None
    assert (stat.written, stat.restarts) == (20, 0)


def test_a_library_that_hangs_before_it_is_opened_ends_the_process(tmp_path: Path, folder: WriterFolder) -> None:
    """A library that hangs before `open` ends the process like any hung call.

    The process that looks after the writer starts another.
    """
    assert write(tmp_path, "jsonl", "hangs")[0] == Exit.ERROR
    assert "Timeout" in folder.log.read_text()


def test_a_writer_that_was_killed_is_counted(
    tmp_path: Path, folder: WriterFolder, wait_until: Callable[..., object]
) -> None:
    """The next writer counts one that was killed. A call that hung then is its last error."""
    child = start(tmp_path, "jsonl", "waits")
    wait_until(lambda: folder.checkpoint.exists() and folder.read_checkpoint().position["next_record"] == 10, 30.0)
    child.kill()
    child.communicate()
    stat = folder.read_status()
    assert stat is not None
    folder.write_status(BackendStat(name="jsonl", state="writing", calling_s=59.8, retried=4))
    assert write(tmp_path)[0] == Exit.OK
    stat = folder.read_status()
    assert stat is not None
    assert (stat.restarts, stat.retried, "hung" in stat.last_error) == (1, 4, True)
    assert steps(folder) == list(range(20))


def test_who_died_after_all_was_delivered_is_called_done(tmp_path: Path, folder: WriterFolder) -> None:
    """A writer that died after all was delivered is called done by the next one.

    The next one has nothing else to do.
    """
    assert write(tmp_path)[0] == Exit.OK
    folder.write_status(BackendStat(name="jsonl", state="writing", queued=4))
    assert write(tmp_path)[0] == Exit.OK
    stat = folder.read_status()
    assert stat is not None
    assert (stat.state, stat.queued, stat.written, steps(folder)) == ("done", 0, 20, list(range(20)))


def test_paths_that_are_no_text(tmp_path: Path, folder: WriterFolder) -> None:
    """A path that is no text is written to. The reports have as much of it as text can say."""
    there = os.fsdecode(bytes(tmp_path) + b"/\xff.jsonl")
    assert write(tmp_path, f"jsonl:path={there}")[0] == Exit.OK
    assert len(Path(there).read_bytes().splitlines()) == 20
    stat, facts = folder.read_status(), folder.read_facts()
    assert stat is not None
    assert facts is not None
    assert (stat.state, "\\udcff.jsonl" in stat.place, "\ufffd.jsonl" in facts.to) == ("done", True, True)


def test_a_run_that_died_is_not_done(tmp_path: Path, folder: WriterFolder) -> None:
    """All there is is written, and a result may come."""
    assert write(tmp_path, "jsonl", "dead")[0] == Exit.BACKEND_FAILED
    assert steps(folder) == list(range(20))


def test_a_crash_says_where_more_is(tmp_path: Path, folder: WriterFolder) -> None:
    """Code 1, so that another is started; it counts as a death."""
    code, _, err = write(tmp_path, "jsonl", "crash")
    assert (code, "it crashed with ZeroDivisionError: oh" in err, str(folder.log) in err) == (1, True, True)
    assert "Traceback" in folder.log.read_text()
    stat = folder.read_status()
    assert stat is not None
    assert (stat.state, stat.last_error) == ("starting", "ZeroDivisionError: oh")


def test_what_cant_begin_is_failed(tmp_path: Path, folder: WriterFolder) -> None:
    """A writer that can't begin fails with its reason: an option, or a checkpoint that can't be used."""
    code, _, err = write(tmp_path, "jsonl:no=1")
    stat = folder.read_status()
    assert stat is not None
    assert (code, stat.state, "has no option 'no'" in err) == (Exit.USAGE, "failed", True)
    for damaged in ("{", '{"position": {"next_record": -1}}'):
        folder.checkpoint.write_text(damaged)
        code, _, err = write(tmp_path)
        assert (code, f"remove {folder.path}" in err) == (Exit.USAGE, True)
    folder.checkpoint.unlink()
    folder.write_checkpoint(WriterCheckpoint())
    assert write(tmp_path)[0] == Exit.OK


def test_secrets_in_addresses_are_not_kept(tmp_path: Path, folder: WriterFolder) -> None:
    """Secrets in addresses are not on disk. The next process has to be told them again."""
    code, _, _ = write(tmp_path, "jsonl:path=http://user:secret@host/x")
    facts = folder.read_facts()
    assert facts is not None
    assert (code, "secret" in facts.to, "***" in facts.to) == (Exit.OK, False, True)
