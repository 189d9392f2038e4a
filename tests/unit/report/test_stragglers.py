"""Tests of the section of a report about slow ranks."""

from __future__ import annotations

import json
from functools import cache

from msgspec.structs import replace
from tests.golden.report.renderings import stored_report

from telemetry import render
from telemetry.history.stragglers import StragglerWatch
from telemetry.report.stragglers import TITLE, stragglers
from telemetry.testing.slow_ranks import SimulatedRanks
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot


@cache
def report(factor: float = 1.4, ranks: int = 12) -> Report:
    """Return the report of a job whose rank 3 works `factor` times as long as the others."""
    snapshot = MetricsSnapshot(run_id="r", name="n", state="COMPLETE", completeness="complete")
    watch = StragglerWatch()
    for step in SimulatedRanks(ranks=ranks, slow={3: factor}).steps(100):
        watch.add(step.closed(), {})
    return Report(snapshot=snapshot, source="file", stragglers=watch.found(snapshot))


def test_a_line_for_each_slow_rank() -> None:
    """The section names each slow rank with its cost, and explains the cost."""
    section = stragglers(report())
    assert section.lines[0].startswith("rank 3 costs ")
    assert section.notes[0].startswith("cost: how much sooner a step would end")


def test_without_a_slow_rank_there_is_one_line() -> None:
    """The line without a slow rank tells what was judged: axis, steps, ranks and confidence."""
    section = stragglers(report(1.0))
    [line] = section.lines
    assert line.startswith(
        "no rank slows the others on axis step: 100 steps of 12 ranks, 99 % confidence; it would "
    )
    assert section.notes == []


def test_a_run_without_work_and_wait_says_nothing() -> None:
    """A run without work and wait has no section of slow ranks in any form."""
    plain = stored_report()
    assert not stragglers(plain)
    assert TITLE not in render(plain)
    assert 'id="stragglers"' not in render(plain, "html")


def test_each_form_has_the_sentence() -> None:
    """JSON has the figures and the map as well."""
    said = stragglers(report()).lines[0]
    text = render(report())
    assert f"\n{TITLE}\n" in text
    assert " ".join(said.split()) in " ".join(text.split())
    assert f"### {TITLE}" in render(report(), "md")
    found = json.loads(render(report(), "json"))["stragglers"][0]
    assert found["slow"][0]["name"] == "rank 3"
    assert len(found["map"]["lags"]) == len(found["map"]["ranks"]) == 12
    assert {len(row) for row in found["map"]["lags"]} == {len(found["map"]["steps"])}


def test_names_from_outside_are_printable() -> None:
    """A producer without a rank names itself."""
    one = report().stragglers[0]
    evil = replace(one, slow=[replace(one.slow[0], name="a\x1b[31mb")])
    assert "\x1b" not in stragglers(replace(report(), stragglers=[evil])).lines[0]
