"""The report as one file: what stands in it, without a browser."""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from html import unescape

import msgspec
import pytest
from msgspec.structs import replace
from tests.golden.report.renderings import stored_report
from tests.unit.report.html.samples import llm_report, load_report, training_report

from telemetry.report.html import render_html
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report, SeriesBounds
from telemetry.wire.snapshot import CounterStat, MarkStat, MetricsSnapshot, SeriesStat

EVIL = "</script><img src=x onerror=alert(1)>\"'&{{"


def body(text: str) -> str:
    return text.partition("<body>")[2]


@pytest.mark.parametrize(
    ("report", "pictures"),
    [
        (load_report(), ["over-time", "series", "more-over-time", "distribution", "counters", "gauges"]),
        (llm_report(), ["over-time", "requests", "slots", "more-over-time", "distribution", "series"]),
        (training_report(), ["steps", "over-time"]),
    ],
)
def test_trust_comes_first_then_the_chart_then_percentiles(report: Report, pictures: list[str]) -> None:
    """The tiles, the main chart, the table of percentiles; then the other pictures, then the other tables."""
    text = body(render_html(report))
    assert text.index('id="verdict"') < text.index('class="tiles"') < text.index("<nav") < text.index("<section")
    sections = re.findall(r'<section id="([^"]+)"(?: hidden data-scripted)?>', text)
    assert sections[: len(pictures)] == pictures
    tables = ["gates", "marks", "losses", "warnings", "producers", "parameters", "command", "cost"]
    places = [sections.index(name) for name in tables if name in sections]
    assert places == sorted(places)
    assert min(places) >= len(pictures)


def test_a_part_of_a_run_is_announced_above_the_figures() -> None:
    """A steady time range is no result of the whole run."""
    text = body(render_html(stored_report()))
    assert text.index("Steady time range".lower()) < text.index('class="tiles"')


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
    assert f"<strong>data {facts['completeness']}</strong>" in text


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
    data = text.count('<script type="application/json"')
    assert text.count("</script>") == data + 6  # scripts of every page, and that of the report
    assert data > 0
    assert unescape(text).count("onerror=alert(1)") > 10


def test_an_empty_report_is_a_page() -> None:
    """An empty report is a page without a table of series and without data for it."""
    text = render_html(Report(snapshot=MetricsSnapshot(run_id="r", name="n"), source="status"))
    assert "series-table" not in body(text).partition("<script>")[0]
    assert 'id="verdict"' in text


def test_many_series_are_data_and_not_elements() -> None:
    """A thousand rows would make every visit slow; they are made when they are looked at."""
    report = stored_report()
    many = [replace(report.snapshot.series[0], name=f"s{number}") for number in range(1_000)]
    text = body(render_html(replace(report, snapshot=replace(report.snapshot, series=many))))
    assert text.count("<tr>") < 300
    assert text.count("<td") < 4_000
    compressed = re.search(r'data-coding="deflate" id="series-data">([^<]*)<', text)
    assert compressed
    data = msgspec.json.decode(zlib.decompress(b64decode(compressed[1])))
    assert [one["name"] for one in data["series"]] == [
        f"s{number}{{route=/search,status=200}}" for number in range(1_000)
    ]


def test_values_that_are_all_the_same_have_no_distribution() -> None:
    """A single bar has no shape, and its axis the same number everywhere."""
    stat = SeriesStat(
        name="latency", unit="ms", count=4, min=1.5, max=1.5, mean=1.5, percentiles={"50": 1.5, "99": 1.5}
    )
    shown = MetricsSnapshot(run_id="r", name="job", state="COMPLETE", series=[stat], elapsed_s=4.0)
    assert 'id="distribution"' not in render_html(Report(snapshot=shown, source="file"))
    wider = replace(shown, series=[replace(stat, max=2.5)])
    assert 'id="distribution"' in render_html(Report(snapshot=wider, source="file"))


def test_code_and_software_are_behind_one_line() -> None:
    """Fifty packages would hide what comes after them. The line says which commit it was."""
    params = {"git.commit": "c0ffee1234567", "packages.torch": "2.6.0", "python.path": "/usr/" * 20}
    text = render_html(
        Report(snapshot=MetricsSnapshot(run_id="r", name="job", state="COMPLETE", params=params), source="file")
    )
    section = text.partition('<section id="environment">')[2].partition("</section>")[0]
    line = "<summary>commit c0ffee123456 · 3 values</summary>"
    assert section.startswith(f"<h2>Environment</h2><details open>{line}")
    assert section.endswith("</details>")


def test_a_short_run_has_its_distribution_before_the_table() -> None:
    """A run without charts over time still has a picture first."""
    report = load_report()
    pictures = replace(report.pictures, edges_s=[], heat_maps=[], counters=[], gauges=[])
    text = body(render_html(replace(report, over_time=[], pictures=pictures)))
    assert re.findall(r'<section id="([^"]+)"', text)[:2] == ["distribution", "series"]


def test_parts_that_scripts_fill_are_hidden_without_them() -> None:
    """Parts that scripts fill are hidden with their links without scripts.

    A part with a table in its place is shown.
    """
    text = render_html(training_report())
    assert '<section id="over-time" hidden data-scripted>' in text
    assert '<a href="#over-time" hidden data-scripted>' in text
    assert "<details open><summary>Table of values" in text
    loaded = render_html(load_report())
    assert '<section id="over-time">' in loaded
    assert '<section id="distribution" hidden data-scripted>' in loaded
