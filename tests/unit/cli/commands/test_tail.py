"""Tail of runs that have ended."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from telemetry.cli.main import main
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.events import Mark, StreamRecord
from telemetry.wire.version import PROTOCOL

STARTED_NS = 1_772_366_400_000_000_000
MakeRun = Callable[..., RunDirectory]


def test_tail_of_a_finished_run(make_run: MakeRun, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The last snapshot is printed once, on one line."""
    make_run("job", "aaaa1111")
    assert main(["tail"]) == 0
    (line,) = capfdbinary.readouterr().out.splitlines()
    assert json.loads(line)["counters"][0]["value"] == 7


def test_tail_of_finished_records(make_run: MakeRun, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Records come from the log with the names of its lines; `--count` ends early."""
    directory = make_run("job", "aaaa1111")
    log = RecordLog(directory.records)
    log.append(
        [StreamRecord(PROTOCOL, "aaaa1111", seq, "p", STARTED_NS + seq, Mark(text=f"m{seq}")) for seq in range(3)]
    )
    log.close()
    assert main(["tail", "--records"]) == 0
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [(line["seq"], line["type"], line["text"]) for line in lines] == [(n, "mark", f"m{n}") for n in range(3)]
    assert {line["producer"] for line in lines} == {"p"}
    assert main(["tail", "--records", "-n", "1"]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 1


def test_a_bad_count_is_a_usage_error(make_run: MakeRun) -> None:
    """`--count` takes a whole number that is not negative."""
    make_run("job", "aaaa1111")
    assert main(["tail", "-n", "-1"]) == 2
    assert main(["tail", "-n", "many"]) == 2
