"""Requests on a page."""

from __future__ import annotations

import re

from msgspec.structs import replace
from tests.golden.report.renderings import requests_report, stored_report
from tests.unit.history.test_requests import report
from tests.unit.report.html.samples import llm_report
from tests.unit.test_request_model import counter

from telemetry import render
from telemetry.report.html import render_html
from telemetry.report.html.requests import requests_section, slots_section
from telemetry.report.table import Section
from telemetry.wire.requests import COMPLETED, FAILED, ISSUED

EVIL = "</script><img src=x onerror=alert(1)>\"'&"


def test_requests_are_one_section_before_the_series() -> None:
    """Requests are one section before the series, with a title for each part and a link to the whole.

    A run without requests has neither.
    """
    text = render_html(requests_report())
    assert text.index('<section id="requests">') < text.index('<section id="series">')
    assert '<a href="#requests" class="warn">Requests went out late</a>' in text
    assert re.findall(r"<h3>([^<]*)</h3>", text)[:2] == ["all 2 kinds", "llm{model=a-13b}"]
    assert 'id="requests"' not in render_html(stored_report())


def test_the_bar_has_a_share_for_each_outcome() -> None:
    """The bar of an outcome is as wide as its number but never too narrow to be seen.

    Words describe it for readers who see no bars.
    """
    _, text = requests_section(report(counter(ISSUED, 10_000), counter(COMPLETED, 9_990), counter(FAILED, 10)))
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([0-9.]+)"', text)]
    assert widths == [999.0, 4.0]
    assert 'aria-label="9,990 of 10,000 completed · 10 (0.1 %) failed' in text
    _, nothing = requests_section(report(counter(ISSUED, 0)))
    assert "<svg" not in nothing


def test_names_from_outside_are_text() -> None:
    """Kinds, labels, windows and reasons of requests are escaped."""
    stats = [counter(ISSUED, 1, EVIL, window=EVIL, model=EVIL), counter(FAILED, 1, EVIL, window=EVIL, reason=EVIL)]
    _, text = requests_section(report(*stats))
    assert "<img" not in text
    assert "&lt;img" in text


def test_how_late_requests_were_stands_out_above_their_figures() -> None:
    """The lateness of requests stands out once, before the first table of the kind.

    Neither link nor section mentions it if all went out in time.
    """
    text = render_html(requests_report())
    (at,) = (found.start() for found in re.finditer(r'<p class="banner warn">requests of llm', text))
    assert text.index("<h3>llm{model=a-13b}</h3>") < at < text.index("<th", text.index("<h3>llm"))
    assert text.count("started up to 2.00 s late") == 1
    assert re.search(r'href="#requests" class="warn">Requests went out late<', text)
    plain = render(report(counter(ISSUED, 1), counter(COMPLETED, 1)), "html")
    assert '<a href="#requests">Requests</a>' in plain
    assert "banner warn" not in plain


def test_reasons_are_cut_and_escaped() -> None:
    """The bar's words are those of the text."""
    stats = [counter(FAILED, 2, reason="<b>" * 300), counter(FAILED, 1, reason=" ")]
    _, text = requests_section(report(counter(ISSUED, 3), *stats))
    assert f"3 (100 %) failed (2 {'&lt;b&gt;' * 10}&lt;b…&gt;{'&lt;b&gt;' * 10}, 1 (blank))" in text
    assert "<b>" not in text


def test_a_sample_of_requests_says_so() -> None:
    """A sample of requests says how many of all it has, from when, and why these.

    All requests together need no words.
    """
    report = llm_report()
    assert report.pictures is not None
    assert report.pictures.slots is not None
    section, whole = slots_section(report)
    assert section
    assert "most requests in flight" not in whole
    assert "requests that wait to be issued have slots, too" in whole
    at_once = replace(report.pictures.slots, issued_s=report.pictures.slots.begin_s)
    _, closed = slots_section(replace(report, pictures=replace(report.pictures, slots=at_once)))
    assert "wait to be issued have slots" not in closed
    part = replace(report.pictures, slots=replace(report.pictures.slots, total=9_000))
    _, sampled = slots_section(replace(report, pictures=part))
    assert "40 of 9,000 requests: those of 0 s to 19.5 s, around the most requests in flight" in sampled
    none = replace(report.pictures, slots=None)
    assert slots_section(replace(report, pictures=none)) == (Section("Requests by slot"), "")
