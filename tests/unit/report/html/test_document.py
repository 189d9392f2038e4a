"""The report as one file: what stands in it, without a browser."""

from __future__ import annotations

import re
from html import unescape

import pytest
from msgspec.structs import replace
from tests.golden.report.renderings import stored_report

from telemetry.report.html import render_html
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report, SeriesBounds
from telemetry.wire.snapshot import CounterStat, MarkStat, MetricsSnapshot, SeriesStat

EVIL = "</script><img src=x onerror=alert(1)>\"'&{{"


def body(text: str) -> str:
    return text.partition("<body>")[2]


def test_trust_comes_first() -> None:
    """The verdict, then what was run, then what part of it, the gates, the numbers."""
    text = body(render_html(stored_report()))
    order = [
        'id="verdict"',
        "steady time range",
        'id="command"',
        'id="gates"',
        'id="series"',
        'id="counters"',
    ]
    order += ['id="gauges"', 'id="marks"', 'id="losses"', 'id="producers"', 'id="cost"', 'id="warnings"']
    places = [text.lower().index(part) for part in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"completeness": "complete", "state": "COMPLETE"}, "good"),
        ({"completeness": "lossy", "state": "COMPLETE"}, "warn"),
        ({"completeness": "interrupted", "state": "INTERRUPTED"}, "bad"),
    ],
)
def test_the_verdict_has_a_colour_and_a_word(facts: dict[str, str], kind: str) -> None:
    """Colour alone tells some readers nothing."""
    snapshot = MetricsSnapshot(run_id="r", name="n", **facts)  # type: ignore[arg-type]
    text = render_html(Report(snapshot=snapshot, source="file"))
    assert f'class="banner {kind}"' in text
    assert f"<strong>{facts['completeness']}</strong>" in text


def test_every_link_leads_somewhere() -> None:
    """Inside the page, and to nowhere else."""
    text = body(render_html(stored_report()))
    links = re.findall(r'href="([^"]*)"', text)
    assert [link for link in links if f'id="{link[1:]}"' not in text] == []
    assert len(links) == len(set(links)) > 10


def test_what_comes_from_outside_is_text() -> None:
    """Names, labels, units, marks, parameters, warnings, gates: none of them opens an element."""
    snapshot = MetricsSnapshot(
        run_id=EVIL,
        name=EVIL,
        reason=EVIL,
        series=[SeriesStat(name=EVIL, labels={EVIL: EVIL}, unit=EVIL, count=1, percentiles={EVIL: 1.0})],
        counters=[CounterStat(name=EVIL, unit=EVIL)],
        marks=[MarkStat(text=EVIL, time_ns=1)],
        params={EVIL: EVIL},
        warnings=[EVIL],
        directory=EVIL,
    )
    gate = GateResult(expression=EVIL, outcome="fail", reason=EVIL)
    bounds = SeriesBounds(name=EVIL, labels={EVIL: EVIL})
    text = render_html(
        Report(snapshot=snapshot, source="file", source_reason=EVIL, gates=[gate], findings=[EVIL], bounds=[bounds])
    )
    assert "<img" not in text
    assert text.count("</script>") == 4  # the data, and three scripts
    assert unescape(text).count("onerror=alert(1)") > 10


def test_an_empty_report_is_a_page() -> None:
    """Without series there is no table of them, and no data for it."""
    text = render_html(Report(snapshot=MetricsSnapshot(run_id="r", name="n"), source="status"))
    assert "series-table" not in body(text).partition("<script>")[0]
    assert 'id="verdict"' in text


def test_many_series_are_data_and_not_elements() -> None:
    """A thousand rows would make every visit slow; they are made when they are looked at."""
    report = stored_report()
    many = [replace(report.snapshot.series[0], name=f"s{number}") for number in range(1_000)]
    text = body(render_html(replace(report, snapshot=replace(report.snapshot, series=many))))
    assert text.count("<tr>") < 300
    assert text.count('"name":"s') == 1_000
