"""Exact percentiles from a journal on disk."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.exact_percentiles import HOLE, Refinement, Refiner, another_may_succeed, damage, obstacle
from telemetry.store.journal import JournalReader, JournalWriter
from telemetry.store.run_directory import RunDirectory
from telemetry.testing import frame
from telemetry.wire.codec import decode_batch
from telemetry.wire.events import Define, Sample

KEYS = ("50", "99.9", "90")
BATCHES = 400
ROWS = 7
NOW_NS = 1_000_000_000_000

WaitUntil = Callable[..., Any]


class Recorded:
    """An aggregator that was told the same as its journal."""

    def __init__(self, folder: Path) -> None:
        self.directory = RunDirectory.create(folder, "job", "r1", 1)
        self.journal = JournalWriter(self.directory.journal, b"", NOW_NS)
        self.aggregator = Aggregator(AggregatorConfig(percentiles=KEYS))
        self.values: dict[str, list[float]] = {"rows": [], "samples": []}
        self.seq = self.first = 0

    def take(self, rows: list[float], samples: list[float], *, journaled: bool = True) -> None:
        define = [Define(3, "rows", "series", "ms")] if not self.seq else []
        data = frame(
            "p",
            self.seq,
            self.first,
            records=[*define, *(Sample("samples", value, unit="ms") for value in samples)],
            rows=[(3, NOW_NS, value) for value in rows],
        )
        batch = decode_batch(data)
        assert self.aggregator.admit(batch, NOW_NS)
        if journaled:
            self.journal.append([data], NOW_NS)
        self.aggregator.apply([batch], NOW_NS, NOW_NS)
        self.values["rows"] += rows
        self.values["samples"] += samples
        self.seq += 1
        self.first += len(rows) + len(samples)

    def expected(self) -> dict[int, dict[str, float]]:
        """The order statistics, by sorting."""
        found = {}
        for index in range(len(self.aggregator.series)):
            values = sorted(self.values[self.aggregator.series.key(index).name])
            ranks = {key: math.ceil(round(float(key) * 1_000) * len(values) / 100_000) for key in KEYS}
            found[index] = {key: values[rank - 1] for key, rank in ranks.items()}
        return found


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    made = Recorded(tmp_path)
    rng = random.Random(7)
    for _ in range(BATCHES):
        made.take([rng.lognormvariate(0.0, 1.0) for _ in range(ROWS)], [rng.random()])
    return made


def begin(recorded: Recorded, budget_s: float = 60.0) -> Refiner:
    return Refiner(recorded.aggregator, recorded.directory.journal, budget_s, wake=lambda: None)


def outcome(refiner: Refiner, wait_until: WaitUntil) -> Refinement:
    found = wait_until(lambda: refiner.outcome)
    assert isinstance(found, Refinement)
    return found


def test_the_journal_gives_the_order_statistics(recorded: Recorded, wait_until: WaitUntil) -> None:
    """Rows and self-describing samples, in many small batches, to the last bit."""
    recorded.journal.close()
    found = outcome(Refiner(recorded.aggregator, recorded.directory.journal, 60.0, wake=lambda: None), wait_until)
    assert (found.exact, found.reason, found.warnings) == (True, "", [])
    assert found.values == recorded.expected()


def test_exact_percentiles_keep_the_order_of_the_live_ones(recorded: Recorded, wait_until: WaitUntil) -> None:
    """Readers see the same keys in the same order before and after."""
    live = [list(stat.percentiles) for stat in recorded.aggregator.series.stats()]
    found = outcome(Refiner(recorded.aggregator, recorded.directory.journal, 60.0, wake=lambda: None), wait_until)
    recorded.aggregator.series.apply_exact(found.values)
    stats = recorded.aggregator.series.stats()
    assert all(stat.exact for stat in stats)
    assert [list(stat.percentiles) for stat in stats] == live == [list(KEYS)] * 2


def test_a_run_without_values_is_exact(tmp_path: Path, wait_until: WaitUntil) -> None:
    """There is nothing that could be wrong."""
    empty = Recorded(tmp_path)
    found = outcome(begin(empty), wait_until)
    assert (found.exact, found.values) == (True, {})


def test_a_damaged_journal_is_said(recorded: Recorded, wait_until: WaitUntil) -> None:
    """A damaged journal gives no wrong number: the histogram's numbers stay, with the reason."""
    recorded.journal.close()
    (segment,) = recorded.directory.journal.iterdir()
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    found = outcome(Refiner(recorded.aggregator, recorded.directory.journal, 60.0, wake=lambda: None), wait_until)
    assert (found.exact, found.values) == (False, {})
    assert "bytes of the journal are damaged" in found.reason


def test_a_journal_that_is_gone_is_said(recorded: Recorded, wait_until: WaitUntil) -> None:
    """The thread ends with an outcome whatever happens in it."""
    for segment in recorded.directory.journal.iterdir():
        segment.unlink()
    found = outcome(Refiner(recorded.aggregator, recorded.directory.journal, 60.0, wake=lambda: None), wait_until)
    assert not found.exact
    assert "the exact pass failed: there is no journal" in found.reason


def test_a_series_that_disagrees_is_named_and_spoils_no_other(recorded: Recorded, wait_until: WaitUntil) -> None:
    """Values that were applied and not journaled: that series keeps its bound, the other one is exact."""
    recorded.take([], [0.5] * 50, journaled=False)
    found = outcome(Refiner(recorded.aggregator, recorded.directory.journal, 60.0, wake=lambda: None), wait_until)
    assert (found.exact, found.reason) == (False, "some series disagree with the journal")
    (warning,) = found.warnings
    assert warning.startswith("samples: ")
    assert [recorded.aggregator.series.key(index).name for index in found.values] == ["rows"]


def test_whoever_waits_is_woken(recorded: Recorded, wait_until: WaitUntil) -> None:
    """The waiting thread is woken once, when there is an outcome."""
    seen: list[Refinement | None] = []
    begun: list[Refiner] = []
    refiner = Refiner(
        recorded.aggregator,
        recorded.directory,
        60.0,
        wake=lambda: seen.append(wait_until(lambda: begun)[0].outcome),
    )
    begun.append(refiner)
    wait_until(lambda: seen)
    assert seen == [refiner.outcome]
    assert refiner.outcome is not None


def test_it_stops_when_told_to(recorded: Recorded, wait_until: WaitUntil) -> None:
    """A pass stops with the reason that it was given, and a second reason changes nothing."""
    begun, go = recorded.aggregator.series_values, []

    def slow(batch: Any) -> Any:
        wait_until(lambda: go)
        return begun(batch)

    recorded.aggregator.series_values = slow  # type: ignore[method-assign]
    refiner = Refiner(recorded.aggregator, recorded.directory.journal, 60.0, wake=lambda: None)
    assert refiner.outcome is None
    refiner.stop("stopped by SIGTERM")
    refiner.stop("later")
    go.append(True)
    assert outcome(refiner, wait_until) == Refinement(exact=False, reason="stopped by SIGTERM")


def test_its_time_is_bounded(recorded: Recorded, wait_until: WaitUntil) -> None:
    """A journal that takes too long leaves the bound of the histogram."""
    found = outcome(Refiner(recorded.aggregator, recorded.directory.journal, 0.0, wake=lambda: None), wait_until)
    assert (found.exact, found.reason) == (False, "the exact pass took more than 0 s")


def test_what_stands_in_the_way(tmp_path: Path) -> None:
    """An exact pass is prevented by a missing journal, a failed one, or one that lost segments."""
    assert obstacle(None) == "the journal is off"
    journal = JournalWriter(tmp_path / "j", b"", NOW_NS)
    assert obstacle(journal) == ""
    journal.dropped_segments = 3
    assert obstacle(journal) == "the journal exceeded its size limit and lost its 3 oldest segments"
    journal.dropped_segments = 1
    assert obstacle(journal) == "the journal exceeded its size limit and lost its oldest segment"
    journal.failed = "No space left on device"
    assert obstacle(journal) == "can't write the journal: No space left on device"
    journal.close()


def three_segments(recorded: Recorded) -> list[Path]:
    for value in (0.5, 1.5):
        recorded.journal.begin(b"", NOW_NS)
        recorded.take([value], [value])
    recorded.journal.close()
    return sorted(recorded.directory.journal.iterdir())


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        (0, "the journal lost its oldest segment: it exceeded its size limit, or the files were deleted"),
        (1, "a segment in the middle of the journal is missing or unreadable"),
    ],
)
@pytest.mark.parametrize("emptied", [False, True])
def test_a_gap_is_told_from_the_cap(
    recorded: Recorded, wait_until: WaitUntil, lost: int, reason: str, emptied: bool
) -> None:
    """The cap takes the first segments; what is missing further on is damage."""
    path = three_segments(recorded)[lost]
    path.unlink()
    if emptied and lost:
        path.touch()
    found = outcome(begin(recorded), wait_until)
    assert (found.exact, found.reason) == (False, reason)
    assert found.warnings == ([HOLE] if lost else [])


def test_a_byte_that_is_damaged_is_one() -> None:
    """The text about damage uses the singular for one byte and the plural for several."""
    assert damage(1) == "1 byte of the journal is damaged"
    assert damage(1_234) == "1,234 bytes of the journal are damaged"


@pytest.mark.parametrize(
    ("reason", "may"),
    [
        ("the exact pass took more than 60 s", True),
        ("interrupted before the exact pass ended", True),
        ("1,234 bytes of the journal are damaged", False),
        ("the journal exceeded its size limit and lost its oldest segment", False),
        ("some series hold integers beyond 2**53", False),
        ("some counters and gauges hold integers beyond 2**53", False),
    ],
)
def test_what_lacked_time_may_succeed_and_what_lacked_values_may_not(reason: str, may: bool) -> None:
    """Another try is proposed only if it may succeed."""
    assert another_may_succeed(reason) == may


def test_a_damaged_end_is_no_torn_one(recorded: Recorded, wait_until: WaitUntil) -> None:
    """Bytes that were never in the numbers are forgiven; those that something has spoiled are not."""
    recorded.journal.close()
    (path,) = recorded.directory.journal.iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    reader = JournalReader(recorded.directory.journal)
    list(reader.frames())
    torn = Refiner(recorded.aggregator, recorded.directory.journal, 60.0, lambda: None, reader.tail_bytes)
    assert "bytes" not in outcome(torn, wait_until).reason
    path.write_bytes(data[:-1] + b"?")
    rotten = Refiner(recorded.aggregator, recorded.directory.journal, 60.0, lambda: None, reader.tail_bytes + 1)
    found = outcome(rotten, wait_until)
    assert (found.exact, found.values) == (False, {})
    assert found.reason.endswith("bytes of the journal are damaged")


def test_a_journal_that_had_failed_gives_nothing_exact(tmp_path: Path, wait_until: WaitUntil) -> None:
    """A failed journal makes even a run without values inexact: that it had none is unknown."""
    empty = Recorded(tmp_path)
    empty.journal.close()
    (segment,) = empty.directory.journal.iterdir()
    segment.rename(segment.with_name("00000000-failed.seg"))
    found = outcome(begin(empty), wait_until)
    assert (found.exact, found.reason) == (False, "writing the journal failed during the run")
