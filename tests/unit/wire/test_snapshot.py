"""MetricsSnapshot: the words that others rely on."""

from __future__ import annotations

import msgspec

from telemetry.wire.snapshot import TERMINAL, Accounting, CounterStat, GaugeStat, MetricsSnapshot, SeriesStat


def fields(kind: type) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def test_names_that_readers_rely_on_are_there() -> None:
    """The final file and every `--json` speak these words."""
    assert {"schema_version", "state", "completeness", "counters", "gauges", "series"} <= fields(MetricsSnapshot)
    assert {"name", "labels", "unit", "value"} <= fields(CounterStat) & fields(GaugeStat)
    numbers = {"count", "total", "min", "max", "mean", "stddev", "percentiles", "exact", "error_bound"}
    assert {"name", "labels", "unit", *numbers} <= fields(SeriesStat)


def test_lost_is_what_is_in_no_number() -> None:
    """Drops on both sides and what never came."""
    account = Accounting(dropped={"negative": 1, "late": 2}, dropped_by_producer={"full": 3}, missing=4)
    assert account.lost == 10


def test_two_states_are_terminal() -> None:
    """Two states are terminal: after these nothing changes any more."""
    assert sorted(TERMINAL) == ["COMPLETE", "INTERRUPTED"]


def test_a_snapshot_needs_only_a_run() -> None:
    """Everything else has a default, so that later minor versions can add fields."""
    required = {field.name for field in msgspec.structs.fields(MetricsSnapshot) if field.required}
    assert required == {"run_id", "name"}
