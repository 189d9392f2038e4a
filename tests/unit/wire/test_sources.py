"""The structs of sources.json."""

from __future__ import annotations

import msgspec

from telemetry.wire.sources import Sources, SourceSeries, SourceStat
from telemetry.wire.version import SCHEMA


def test_names_are_enough() -> None:
    """All else has a default, so that an older file can be read; integers stay integers."""
    read = msgspec.json.decode(
        b'{"sources":[{"run_id":"a","name":"n","series":[{"name":"s","p50":3}]}]}', type=Sources
    )
    assert read.schema_version == SCHEMA
    assert read.sources == [SourceStat(run_id="a", name="n", series=[SourceSeries(name="s", p50=3)])]
    assert isinstance(read.sources[0].series[0].p50, int)
