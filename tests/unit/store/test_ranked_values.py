"""Values of many ranks in the lines of the record log."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator.budgets import line_bytes
from telemetry.store.ranked_values import RankedStep, unpacked
from telemetry.store.records import FILE_NAME, DamagedRecord, RecordLog, record_line
from telemetry.wire.events import ClosedStep, StreamRecord
from telemetry.wire.seal import sealed
from telemetry.wire.stragglers import WAIT, WORK
from telemetry.wire.version import PROTOCOL

RUN = "r" * 32


def step(ranks: int, first: int = 0, name: str = WORK, number: int = 0) -> StreamRecord:
    """A step in which each rank works 0.2 s, more or less."""
    chance = random.Random(number)
    pairs = [(first + rank, 0.2 * chance.lognormvariate(0.0, 0.05)) for rank in range(ranks)]
    closed = ClosedStep("step", number, {name: 0.2}, producers=ranks, ranks={name: pairs})
    return StreamRecord(PROTOCOL, RUN, number, "", 1, closed)


def log_of(folder: Path, *records: StreamRecord) -> RecordLog:
    log = RecordLog(folder)
    log.append(records)
    log.close()
    return RecordLog(folder)


def ranks_of(record: StreamRecord) -> dict[str, Any]:
    assert isinstance(record.record, ClosedStep)
    return record.record.ranks


def test_durations_of_many_ranks_keep_seven_digits(tmp_path: Path) -> None:
    """Their ranks are the same, also if some are missing in between."""
    written = step(900)
    pairs = [pair for pair in ranks_of(written)[WORK] if pair[0] % 100]
    written = replace(written, record=replace(written.record, ranks={WORK: pairs}))
    (read,) = log_of(tmp_path, written).readable()
    assert [rank for rank, _ in ranks_of(read)[WORK]] == [rank for rank, _ in pairs]
    assert [value for _, value in ranks_of(read)[WORK]] == pytest.approx([value for _, value in pairs], rel=1e-7)


def test_other_values_are_exact(tmp_path: Path) -> None:
    """Such as numbers of tokens, and names that the program chose."""
    written = step(300, name="tokens")
    (read,) = log_of(tmp_path, written).readable()
    assert ranks_of(read) == ranks_of(written)


@pytest.mark.parametrize("ranks", [1, 64])
def test_values_of_few_ranks_stay_readable(ranks: int) -> None:
    """As pairs of rank and value, exactly."""
    written = step(ranks)
    line = json.loads(record_line(written))
    assert line["ranks"] == {WORK: [list(pair) for pair in ranks_of(written)[WORK]]}
    assert "packed_ranks" not in line


def test_a_process_without_a_rank_keeps_the_values_readable() -> None:
    """Packed ranks are numbers."""
    written = step(200)
    pairs = [*ranks_of(written)[WORK], ("host-1-2", 0.25)]
    line = json.loads(record_line(replace(written, record=replace(written.record, ranks={WORK: pairs}))))
    assert line["ranks"][WORK][-1] == ["host-1-2", 0.25]
    assert "packed_ranks" not in line


def test_a_rank_and_step_takes_ten_bytes() -> None:
    """With its work and its wait, among a thousand ranks."""
    written = step(1_024)
    waits = [(rank, 0.3 - value) for rank, value in ranks_of(written)[WORK]]
    both = replace(written.record, ranks={**ranks_of(written), WAIT: waits})
    assert len(record_line(replace(written, record=both))) < 10 * 1_024


def test_a_step_can_be_read_without_the_rest(tmp_path: Path) -> None:
    """`RankedStep` has the values of few and of many ranks."""
    log = log_of(tmp_path, step(3, number=0), step(100, number=1))
    few, many = log.of_type(RankedStep)
    assert [len(few.ranked()[WORK]), len(many.ranked()[WORK])] == [3, 100]
    assert (few.step, many.step) == (0, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"ranks": [[0, limits.STEP_RANKS], [0, limits.STEP_RANKS]]},
        {"ranks": [[0, 99]]},
        {"ranks": [[0, -1]]},
        {"type": "f2"},
        {"type": "f8"},
        {"values": "no base64"},
        {"values": "AAAA"},
        {"values": ""},
    ],
    ids=lambda change: str(change)[:40],
)
def test_damaged_values_are_a_damaged_record(tmp_path: Path, change: dict[str, Any]) -> None:
    """The record is damaged. Others are read."""
    log_of(tmp_path, step(100, number=0), step(100, number=1))
    lines = (tmp_path / FILE_NAME).read_bytes().splitlines(keepends=True)
    content = json.loads(lines[1])
    del content["crc"]
    content["packed_ranks"][WORK] |= change
    lines[1] = sealed(json.dumps(content, separators=(",", ":")).encode() + b"\n")
    (tmp_path / FILE_NAME).write_bytes(b"".join(lines))
    log = RecordLog(tmp_path)
    with pytest.raises(DamagedRecord):
        log.read(0, 1)
    assert [record.seq for record in log.readable()] == [1]


def test_changed_bytes_of_packed_values_never_crash() -> None:
    """A thousand random changes end in values or in a ValueError."""
    chance = random.Random(5)
    (part,) = json.loads(record_line(step(200)))["packed_ranks"].values()
    outcomes = set()
    for _ in range(1_000):
        text = bytearray(part["values"].encode())
        text[chance.randrange(len(text))] = chance.choice(b"ABCDwxyz0189+/=")
        try:
            values = unpacked({"packed_ranks": {"w": part | {"values": text.decode()}}})["w"]
            outcomes.add(len(values))
        except ValueError:
            outcomes.add(0)
    assert outcomes <= {0, 200}


@pytest.mark.parametrize("ranks", [1, 64, 65, 1_024])
@pytest.mark.parametrize("name", [WORK, "tokens"])
def test_the_budget_bounds_the_line(ranks: int, name: str) -> None:
    """A line is never longer than the budget of the record log counts for it, and not much shorter if packed."""
    written = step(ranks, name=name)
    bound = line_bytes("", written.record)
    assert len(record_line(written)) <= bound <= 2 * len(record_line(written)) + 400
