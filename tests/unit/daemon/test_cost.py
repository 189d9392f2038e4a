"""The aggregator's own bill."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.daemon import cost
from telemetry.daemon.cost import CostMeter, EarlierCost, rss_bytes
from telemetry.wire.snapshot import SelfCost

MS = 1_000_000


def facts(meter: CostMeter) -> SelfCost:
    return meter.facts(journal_bytes=1, history_bytes=2, series=3, pages=4)


def test_frames_ticks_and_sizes_are_added_up() -> None:
    """Totals since the beginning; the newest tick and the longest one."""
    meter = CostMeter(0)
    meter.took(2, 100)
    meter.took(1, 5)
    meter.ticked(3 * MS, late=False)
    meter.ticked(MS, late=True)
    found = facts(meter)
    assert (found.frames, found.frame_bytes) == (3, 105)
    assert (found.ticks, found.ticks_late, found.tick_ms, found.tick_ms_max) == (2, 1, 1.0, 3.0)
    assert (found.journal_bytes, found.history_bytes, found.series, found.pages) == (1, 2, 3, 4)


def test_what_others_took_and_wrote_before_is_counted_on() -> None:
    """Earlier costs are counted on, and none of them counts as new."""
    meter = CostMeter(0, EarlierCost(events=1_000, frames=5, frame_bytes=70, journal_bytes=30, history_bytes=40))
    meter.took(2, 100)
    meter.each_second(1_000 * MS, applied=1_010)
    found = facts(meter)
    assert (found.frames, found.frame_bytes, found.journal_bytes, found.history_bytes) == (7, 170, 31, 42)
    assert found.events_per_s == 10.0


def test_rates_are_of_the_last_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events and CPU since the last call, over the time since then."""
    cpu_ns = 0
    monkeypatch.setattr(cost.time, "process_time_ns", lambda: cpu_ns)
    meter = CostMeter(1_000 * MS)
    cpu_ns = 250 * MS
    meter.each_second(2_000 * MS, applied=500)
    assert (facts(meter).events_per_s, facts(meter).cpu_percent) == (500.0, 25.0)
    meter.each_second(4_000 * MS, applied=600)
    assert (facts(meter).events_per_s, facts(meter).cpu_percent) == (50.0, 0.0)
    assert facts(meter).cpu_s == 0.25
    meter.each_second(4_000 * MS, applied=600)
    assert facts(meter).events_per_s == 0.0


def test_memory_is_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resident now, or the peak where there is no /proc."""
    resident = rss_bytes()
    assert 5_000_000 < resident < 20_000_000_000
    monkeypatch.setattr(cost, "_STATM", Path("/nonexistent"))
    assert rss_bytes() >= resident // 2
