"""`telemetry replay`: a journal through a live aggregator once more, watched like a run, the same in the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from telemetry.store.history import HistoryReader
from telemetry.store.live_runs import list_live
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory, list_runs
from telemetry.transport import subscribe
from telemetry.transport.client import hello
from telemetry.wire.events import StreamRecord

JOB = """
import random, sys, telemetry
who, rng = sys.argv[1], random.Random(sys.argv[1])
run = telemetry.start("job", policy="block")
run.params({"seed": who, "rate": 0.1})
run.expect("bytes", 1_000_000)
for round in range(6):
    run.mark(f"round {round} of {who}", worker=who)
    for number in range(3_000):
        run.series("latency", unit="ms", route=f"/{number % 3}", who=who).record(rng.lognormvariate(0.0, 2.0))
        run.series("size", unit="B").record(rng.randrange(10**6))
        run.counter("bytes", unit="B").add(rng.random())
        run.counter("n", who=who).add()
        run.gauge("load", unit="1").set(rng.gauss(0.0, 1.0))
    import time; time.sleep(0.4)
run.finish()
"""
DEADLINE_S = 60.0

Essence = Callable[..., dict[str, Any]]


@pytest.fixture
def ended(ground: Any) -> Any:
    """A run of three producers that has come to its end, in order."""
    child, endpoint = ground.serve()
    program = ground.program("job.py", JOB)
    jobs = [ground.popen(sys.executable, program, who, environ={"TELEMETRY_ENDPOINT": endpoint}) for who in "abc"]
    for job in jobs:
        _, err = job.communicate(timeout=DEADLINE_S)
        assert job.returncode == 0, err
    assert ground.run("stop", "job", "--reason", "enough")[0] == 0
    child.communicate(timeout=DEADLINE_S)
    return ground


def replay(ground: Any, *words: str) -> tuple[subprocess.Popen[str], str]:
    """A replay that goes on, and its run id."""
    child = ground.telemetry("replay", "latest", *words)
    said = [child.stderr.readline() for _ in range(2)]
    return child, said[1].split()[-1]


def the_replay(ground: Any) -> RunDirectory:
    return next(run for run in list_runs(ground.folder / "runs") if run.slug.startswith("replay"))


def records(directory: RunDirectory) -> list[tuple[Any, ...]]:
    found: list[StreamRecord] = RecordLog(directory.records).read(0, 1_000)
    return [(item.seq, item.producer, item.wall_ns, item.record) for item in found]


def seconds(directory: RunDirectory) -> list[Any]:
    return list(HistoryReader(directory.history).intervals(level_s=1))


def test_as_fast_as_possible_it_gives_the_identical_result(ended: Any, essence: Essence) -> None:
    """Every number of the final file, every interval of the history, every record; `latest` stays where it was."""
    code, out, err = ended.run("replay", "latest", "--speed", "max")
    assert (code, out) == (0, ""), err
    original, again = RunDirectory.open(ended.folder / "runs" / "latest"), the_replay(ended)
    assert again.path != original.path
    assert essence(ended.final(again.path.name)) == essence(ended.final())
    assert ended.final()["exact"]
    assert seconds(again) == seconds(original)
    assert records(again) == records(original)
    assert HistoryReader(again.history).keys() == HistoryReader(original.history).keys()
    assert list((ended.folder / "telemetry").iterdir()) == []


def test_it_can_be_watched_and_keeps_its_pace(ended: Any) -> None:
    """Snapshots come in between with the journal's time, and it is found like a live run."""
    began = time.monotonic()
    child, run_id = replay(ended, "--speed", "2")
    [announced] = list_live(ended.folder / "telemetry")
    with subscribe(announced.endpoint, conflate=False) as snapshots:  # at once: `ls` takes as long as some replays
        (live,) = ended.live()
        assert (live["run_id"], live["endpoint"]) == (run_id, announced.endpoint)
        seen = list(snapshots)
    child.communicate(timeout=DEADLINE_S)
    took_s = time.monotonic() - began
    final = ended.final()
    assert took_s > final["elapsed_s"] / 2 - 0.5
    applied = [snapshot.accounting.applied for snapshot in seen]
    assert len(set(applied)) > 3
    assert applied == sorted(applied)
    assert {snapshot.state for snapshot in seen} >= {"LIVE", "COMPLETE"}
    assert all(final["started_ns"] <= snapshot.time_ns <= final["time_ns"] for snapshot in seen)
    assert applied[-1] == final["accounting"]["applied"]


def test_it_takes_no_events_from_outside(ended: Any) -> None:
    """A producer that finds it hears what it is."""
    child, _ = replay(ended)
    (live,) = ended.live()
    program = ended.program("late.py", "import telemetry\ntelemetry.start('x')\n")
    late = ended.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": live["endpoint"]})
    _, err = late.communicate(timeout=DEADLINE_S)
    assert late.returncode != 0
    assert "this is a replay of run" in err
    assert hello(live["endpoint"], DEADLINE_S).name.startswith("replay of")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize("how", ["SIGINT", "stop"])
def test_it_can_be_ended_before_the_end(ended: Any, how: str) -> None:
    """The result of a replay that is ended early is marked as interrupted.

    The run's own result is not replaced by it.
    """
    child, run_id = replay(ended, "--speed", "0.1")
    if how == "stop":
        assert ended.run("stop", run_id)[0] == 0
    else:
        child.send_signal(signal.SIGINT)
    child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0
    final = ended.final(the_replay(ended).path.name)
    assert (final["state"], final["completeness"], final["exact"]) == ("INTERRUPTED", "interrupted", False)
    assert final["exact_reason"] == "the replay was stopped before the end of the journal"


def test_a_run_that_died_ends_as_recovering_it_would(ended: Any, essence: Essence) -> None:
    """The journal says how a run without a result ended. A replay of such a run ends as `recover` would end it."""
    original = RunDirectory.open(ended.folder / "runs" / "latest")
    last = sorted(original.journal.iterdir())[-1]
    with last.open("r+b") as file:
        file.truncate(last.stat().st_size * 2 // 3)
    original.final.unlink()
    code, _, err = ended.run("replay", "latest", "--speed", "max")
    assert code == 0, err
    assert ended.run("recover", "latest")[0] == 0
    recovered, again = ended.final(), ended.final(the_replay(ended).path.name)
    assert again["reason"].startswith("the aggregator died")
    assert essence(again) == essence(recovered)


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "inf", "fast"])
def test_a_speed_that_is_none(ground: Any, speed: str) -> None:
    """A usage error."""
    code, out, err = ground.run("replay", "x", f"--speed={speed}")
    assert (code, out) == (2, "")
    assert "is not a speed" in err


def test_what_cannot_be_replayed_is_one_line(ground: Any, tmp_path: Path) -> None:
    """A run that goes on, one without a journal, none at all; and no directory is made for it."""
    child, _ = ground.serve("--no-journal")
    for words in (["latest"], ["nobody"]):
        code, out, err = ground.run("replay", *words)
        assert (code, out, err.count("\n")) == (1, "", 1)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=DEADLINE_S)
    code, out, err = ground.run("replay", "latest")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "no journal" in err or "can't read" in err
    assert len(json.loads(ground.run("ls", "--json")[1])) == 1
