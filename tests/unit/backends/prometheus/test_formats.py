"""Tests of the format that a scrape gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.prometheus.formats import OPENMETRICS, PLAIN, PROTOBUF, ScrapeFormat, choose

PROTO = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
CLASSIC = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75"
REST = "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", PLAIN),
        ("text/html,*/*;q=0.8", PLAIN),
        (f"{CLASSIC},{REST}", OPENMETRICS),
        (f"{PROTO},{CLASSIC};q=0.8,{REST}", PROTOBUF),
        (f"{PROTO};q=0.3,{CLASSIC}", OPENMETRICS),
        (PROTO.replace("delimited", "text"), PLAIN),
        ("application/vnd.google.protobuf", PLAIN),
        ("application/openmetrics-text; version=9.0.0", PLAIN),
        ("text/plain;q=0.9, application/openmetrics-text;q=abc", PLAIN),
        (",;=,;;q", PLAIN),
    ],
)
def test_the_best_of_those_that_are_named(accept: str, wanted: ScrapeFormat) -> None:
    """The weight of each counts, then the order."""
    assert choose(accept) is wanted


@given(st.text() | st.text("text/plain;q=0.9, *"))
def test_any_header_has_a_format(accept: str) -> None:
    """Any Accept header of a scraper gets one of the formats."""
    assert choose(accept) in (PLAIN, OPENMETRICS, PROTOBUF)
