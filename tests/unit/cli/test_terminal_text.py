"""Tests that no control or direction character from a producer reaches a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from telemetry.cli.main import main
from telemetry.common.formatting import printable_json
from telemetry.store.final_snapshot import read_final, write_final
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.events import Mark, StreamRecord
from telemetry.wire.snapshot import CounterStat, MarkStat, ProducerStat, SeriesStat
from telemetry.wire.version import PROTOCOL

BAD = "a\x1b[31m\x9b2J\u202eb\x7f\u2066c\u200fd\x00\U000e0001"
STYLES = re.compile(r"\x1b\[[0-9;]*m")
MakeRun = Callable[..., RunDirectory]


def unprintable(text: str) -> set[str]:
    """Characters that a terminal may obey, besides line breaks."""
    return {char for char in text if not char.isprintable() and char != "\n"}


@pytest.fixture
def bad_run(make_run: MakeRun) -> RunDirectory:
    """A run in which every text that others choose is bad."""
    series = SeriesStat(name=BAD, labels={BAD: BAD}, unit=BAD, count=1, total=1.0, min=1.0, max=1.0)
    counter = CounterStat(name=f"{BAD}n", labels={BAD: BAD}, unit=BAD, value=1, events=1)
    made = make_run(BAD, "aaaa1111", series=[series], counters=[counter], completeness="lossy")
    snapshot = replace(
        read_final(made.final),
        reason=BAD,
        warnings=[BAD],
        params={BAD: BAD},
        exact_reason=BAD,
        marks=[MarkStat(text=BAD, time_ns=1, labels={BAD: BAD}, producer=BAD)],
        producers=[ProducerStat(producer=BAD, name=BAD, host=BAD, emitted=7, received=7, applied=7, missing=1)],
    )
    write_final(snapshot, [made.final])
    log = RecordLog(made.records)
    log.append([StreamRecord(PROTOCOL, "aaaa1111", 0, BAD, 1, Mark(text=BAD))])
    log.close()
    return made


@pytest.mark.parametrize(
    "words",
    [
        ["report", "aaaa1111"],
        ["report", "aaaa1111", "--format", "md"],
        ["report", "aaaa1111", "--format", "json"],
        ["ls"],
        ["ls", "--json"],
        ["status", "aaaa1111"],
        ["gate", "aaaa1111", "lost == 0"],
        ["gate", "aaaa1111", f"p99({BAD}) < 1", "--json"],
        ["compare", "aaaa1111", "--vs", "aaaa1111", "--json"],
        ["status", "aaaa1111", "--json"],
        ["gate", "aaaa1111", f"p99({BAD}) < 1"],
        ["compare", "aaaa1111", "--vs", "aaaa1111"],
        ["tail", "aaaa1111"],
        ["tail", "aaaa1111", "--records"],
        ["status", BAD],
        ["report", BAD],
    ],
    ids=lambda words: " ".join(words).encode("unicode_escape").decode(),
)
def test_a_command_shows_them_as_escapes(
    bad_run: RunDirectory, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A command escapes such characters on stdout and stderr, whatever its outcome."""
    main(words)
    out, err = capfd.readouterr()
    assert out + err
    assert not unprintable(STYLES.sub("", out + err))


def test_json_with_escapes_is_the_same_json() -> None:
    """Escapes change only how the JSON is written. Text of any language stays as it is."""
    document = {"a": BAD, BAD: ["gr\u00fc\u00df", "\u65e5\u672c", "\U0001f600"]}
    shown = printable_json(json.dumps(document, ensure_ascii=False))
    assert json.loads(shown) == document
    assert not unprintable(shown)
    assert "gr\u00fc\u00df" in shown
