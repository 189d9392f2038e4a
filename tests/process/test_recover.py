"""`telemetry recover`: the result of a run whose aggregator was killed, from what lies in its directory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from telemetry.store.framing import frame
from telemetry.store.history import HistoryReader
from telemetry.store.journal import BATCH, JournalReader
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.codec import decode_batch

JOB = """
import os, telemetry
run = telemetry.start("job")
n, value = run.counter("n"), run.series("value", unit="ms", where="here")
for number in range(20_000):
    n.add(0.5)
    value.record(number % 1000 + 0.25)
    if number % 1000 == 0:
        run.mark(f"{number}")
if os.environ.get("STAYS"):
    print("up", flush=True)
    while True:
        value.record(1.0)
run.finish()
"""
DEADLINE_S = 60.0

Essence = Callable[..., dict[str, Any]]
WaitUntil = Callable[..., Any]


def start_job(ground: Any, endpoint: str, **environ: str) -> subprocess.Popen[str]:
    program = ground.program("job.py", JOB)
    child: subprocess.Popen[str] = ground.popen(
        sys.executable, program, environ={"TELEMETRY_ENDPOINT": endpoint, **environ}
    )
    return child


def kill(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGKILL)
    child.communicate()


def here(ground: Any) -> RunDirectory:
    return RunDirectory.open(ground.folder / "runs" / "latest")


def segments(ground: Any) -> list[Path]:
    return sorted(here(ground).journal.iterdir())


def journaled_rows(ground: Any) -> int:
    frames = JournalReader(here(ground).journal).frames()
    return sum(decode_batch(frame.data).rows.events for frame in frames if frame.kind == BATCH)


@pytest.fixture
def dead(ground: Any, wait_until: WaitUntil) -> Any:
    """A run whose aggregator and producer were killed in the middle of it."""
    child, endpoint = ground.serve()
    job = start_job(ground, endpoint, STAYS="1")
    assert job.stdout is not None
    job.stdout.readline()

    def applied() -> int:
        return int(json.loads(ground.run("status", "job", "--json")[1])["accounting"]["applied"])

    wait_until(lambda: applied() > 50_000, DEADLINE_S, "events")
    kill(child)
    kill(job)
    return ground


def test_it_equals_what_the_journal_holds(dead: Any) -> None:
    """All of it, exact, with the reason and the time of the death; nothing is left behind elsewhere."""
    code, out, err = dead.run("recover", "latest", "--json")
    assert code == 0, err
    final = dead.final()
    assert json.loads(out).items() >= final.items()
    assert (final["state"], final["completeness"], final["exact"]) == ("INTERRUPTED", "interrupted", True)
    assert final["reason"].startswith("the aggregator died; its journal ends at 20")
    assert final["accounting"]["applied"] == journaled_rows(dead) + 20
    (counter,) = final["counters"]
    assert counter["value"] == counter["events"] * 0.5
    (producer,) = final["producers"]
    assert producer["completeness"] == "incomplete"
    applied = f"{final['accounting']['applied']:,}"
    assert re.search(rf"job, {applied} events applied(, [\d,]+ lost)?, events after", err)
    assert list((dead.folder / "telemetry").iterdir()) == []
    assert [record.seq for record in RecordLog(here(dead).records).read(0, 100)] == list(range(20))
    seconds = list(HistoryReader(here(dead).history).intervals(level_s=1))
    assert seconds[-1].end_ns == final["time_ns"], "the last interval is as whole as it can be"


def test_a_second_time_there_is_nothing_to_do(dead: Any) -> None:
    """A second `recover` says that there is nothing to do, exits with 0, and prints the result."""
    assert dead.run("recover", "latest")[0] == 0
    final = dead.final()
    before = here(dead).final.stat()
    code, out, err = dead.run("recover", "latest", "--json", "--exact")
    assert code == 0
    assert json.loads(out).items() >= final.items()
    assert "nothing to recover" in err
    after = here(dead).final.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    code, _, err = dead.run("serve", "--resume", "latest")
    assert code == 0
    assert "nothing to resume" in err


def test_a_torn_tail_is_counted_and_no_damage(dead: Any) -> None:
    """The bytes after the last good frame are counted, and the result stays exact.

    These bytes are half a frame, which was never in the numbers.
    """
    reader = JournalReader(here(dead).journal)
    list(reader.frames())
    path = segments(dead)[-1]
    os.truncate(path, path.stat().st_size - reader.tail_bytes)
    with path.open("ab") as file:
        file.write(b"".join(frame([b"x" * 5_000], 1, BATCH))[:1_000])
    assert dead.run("recover", "latest")[0] == 0
    final = dead.final()
    assert final["exact"]
    (warning,) = final["warnings"]
    assert warning == "the journal ended with 1,000 incomplete bytes, which are skipped"


def test_damage_in_the_middle_of_the_only_segment_is_damage(dead: Any) -> None:
    """Events after damage in the middle of the only segment are not in the result.

    The first line of the report, the warnings and a later `recover` say so.
    """
    rows = journaled_rows(dead)
    (path,) = segments(dead)
    middle = path.stat().st_size // 2
    with path.open("r+b") as file:
        file.seek(middle)
        file.write(os.urandom(100))
    code, _, err = dead.run("recover", "latest")
    final = dead.final()
    assert code == 0
    assert 0 < final["accounting"]["applied"] < rows
    assert re.search(r"interrupted: job, [\d,]+ events applied(, [\d,]+ lost)?, events after [\d:]+ UTC", err)
    assert not final["exact"]
    assert any("bytes at the end of the journal are damaged and skipped" in one for one in final["warnings"])
    _, _, err = dead.run("recover", "latest")
    assert "--exact" not in err
    assert "bytes of the journal are damaged" in err


def test_without_a_manifest(dead: Any) -> None:
    """The journal knows the run."""
    (here(dead).path / "manifest.json").unlink()
    code, _, err = dead.run("recover", "latest")
    assert code == 0, err
    assert "can't read the manifest" in err
    assert (dead.final()["name"], dead.final()["exact"]) == ("job", True)


def test_history_and_records_are_completed(dead: Any) -> None:
    """History and records are completed as far back as the journal goes.

    Files that a power loss took are completed, too.
    """
    whole = list(HistoryReader(here(dead).history).intervals(level_s=1))
    records = here(dead).records / "records.jsonl"
    records.write_bytes(records.read_bytes()[:1_000])
    for path in here(dead).history.iterdir():
        path.unlink()
    assert dead.run("recover", "latest")[0] == 0
    found = list(HistoryReader(here(dead).history).intervals(level_s=1))
    assert found[: len(whole)] == whole
    assert found[-1].end_ns == dead.final()["time_ns"]
    assert [record.seq for record in RecordLog(here(dead).records).read(0, 100)] == list(range(20))


def test_an_orderly_end_that_was_journaled_is_complete(
    ground: Any, wait_until: WaitUntil, essence: Essence
) -> None:
    """All that the aggregator still had to do was to write it down; the result is the one it would have written."""
    child, endpoint = ground.serve()
    start_job(ground, endpoint).communicate(timeout=DEADLINE_S)
    assert ground.run("stop", "job", "--reason", "enough")[0] == 0
    child.communicate(timeout=DEADLINE_S)
    original = ground.final()
    here(ground).final.unlink()
    assert ground.run("recover", "latest")[0] == 0
    final = ground.final()
    assert (final["state"], final["completeness"], final["reason"]) == ("COMPLETE", "complete", "enough")
    assert essence(final) == essence(original)
    assert final["warnings"] == []


def test_exact_percentiles_can_be_found_later(ground: Any) -> None:
    """A result that was written in a hurry is refined; all else in it stays."""
    child, endpoint = ground.serve()
    start_job(ground, endpoint).communicate(timeout=DEADLINE_S)
    assert ground.run("stop", "job")[0] == 0
    child.communicate(timeout=DEADLINE_S)
    exact = ground.final()
    rough = exact | {"exact": False, "exact_reason": "the exact pass took more than 60 s"}
    rough["series"] = [
        one
        | {
            "percentiles": {key: min(value * 1.001, one["max"]) for key, value in one["percentiles"].items()},
            "exact": False,
        }
        for one in exact["series"]
    ]
    here(ground).final.write_text(json.dumps(rough))
    code, _, err = ground.run("recover", "latest")
    assert code == 0
    assert "nothing to recover: the run already has its result; `--exact` computes its exact percentiles" in err
    assert ground.final() == rough
    assert ground.run("recover", "latest", "--exact")[0] == 0
    assert ground.final() == exact


def test_a_run_that_is_alive_is_left_alone(ground: Any) -> None:
    """The `recover` command leaves a live run alone, because the run will write its own result."""
    ground.serve()
    code, out, err = ground.run("recover", "latest")
    assert (code, out) == (1, "")
    assert "live aggregator" in err
    assert not here(ground).final.exists()


@pytest.mark.parametrize("how", ["none", "noise"])
def test_a_journal_that_cannot_be_read(dead: Any, how: str) -> None:
    """One line that says so, and no result."""
    for path in segments(dead):
        path.unlink()
        if how == "noise":
            path.write_bytes(b"noise")
    code, out, err = dead.run("recover", "latest")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "can't recover the run" in err
    assert not here(dead).final.exists()


SMALL = {"TELEMETRY_JOURNAL__SEGMENT_BYTES": str(1 << 20)}


@pytest.mark.parametrize("harm", ["the oldest is gone", "the middle is damaged"])
def test_a_journal_with_a_hole_goes_on_from_the_next_checkpoint(
    ground: Any, wait_until: WaitUntil, harm: str
) -> None:
    """The numbers are whole, the percentiles are not exact, and the result says why."""
    child, endpoint = ground.serve(environ=SMALL)
    job = start_job(ground, endpoint, STAYS="1")
    wait_until(lambda: len(segments(ground)) > 3, DEADLINE_S, "segments")
    kill(child)
    kill(job)
    rows = journaled_rows(ground)
    if harm == "the oldest is gone":
        segments(ground)[0].unlink()
    else:
        with segments(ground)[1].open("r+b") as file:
            file.seek(600_000)
            file.write(b"rotten")
    code, _, err = ground.run("recover", "latest")
    assert code == 0, err
    final = ground.final()
    assert final["accounting"]["applied"] == rows + 20
    assert not final["exact"]
    assert ("lost its oldest segment" if harm == "the oldest is gone" else "damaged") in final["exact_reason"]


def test_progress_is_for_terminals_only(dead: Any) -> None:
    """A log of stderr holds lines, no animation."""
    _, _, err = dead.run("recover", "latest")
    assert "\r" not in err
    assert "\x1b" not in err
