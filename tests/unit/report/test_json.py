"""The JSON form is strict."""

from __future__ import annotations

import json

import pytest

from telemetry.report.json import render_json
from telemetry.wire.report import Report
from telemetry.wire.snapshot import GaugeStat, MetricsSnapshot


def test_not_a_number_becomes_null() -> None:
    """NaN and infinity are no JSON: they are null, and nothing else changes."""

    def refuse(word: str) -> None:
        pytest.fail(f"{word} is not strict JSON")

    gauge = GaugeStat(name="g", value=float("nan"), min=float("-inf"))
    report = Report(
        snapshot=MetricsSnapshot(run_id="r", name="n", gauges=[gauge]), source="last_live", source_reason="x"
    )
    document = json.loads(render_json(report), parse_constant=refuse)
    assert document["gauges"][0]["value"] is None
    assert document["gauges"][0]["min"] is None
    assert (document["source"], document["source_reason"]) == ("last_live", "x")
    assert document["schema_version"] == 1
