"""Families as text."""

from __future__ import annotations

import math
import re

from tests.backends.reading_prometheus import OPENMETRICS, TEXT, samples
from tests.unit.backends.prometheus.given import SNAPSHOT

from telemetry.backends.prometheus.families import PrometheusFamily, families
from telemetry.backends.prometheus.names import Names
from telemetry.backends.prometheus.text import openmetrics, plain

FOUND = families(SNAPSHOT, "here", Names())


def test_both_formats_say_the_same() -> None:
    """Both text formats have the same samples to readers of other projects.

    Samples have units, labels with every sign, and histograms.
    """
    old, new = samples(TEXT, plain(FOUND)), samples(OPENMETRICS, openmetrics(FOUND))
    assert repr(sorted(old.items(), key=repr)) == repr(sorted(new.items(), key=repr))
    assert old["requests_total", frozenset({("route", "/b")})] == 2.0**60
    assert old["latency_seconds_count", frozenset({("route", "/a")})] == 5.0
    assert old["latency_seconds_bucket", frozenset({("route", "/a"), ("le", "+Inf")})] == 5.0
    assert (
        old["telemetry_run_info", frozenset({("run_id", "r1"), ("name", 'a "run"\n\\'), ("host", "here")})] == 1.0
    )
    assert math.isnan(old["telemetry_step_value", frozenset({("axis", "train"), ("name", "nan")})])


def test_openmetrics_says_units_and_its_end() -> None:
    """A unit is what a name ends with."""
    body = openmetrics(FOUND).decode()
    assert "# UNIT read_bytes bytes\n" in body
    assert "# TYPE read_bytes counter\n" in body
    assert body.endswith("\n# EOF\n")
    assert re.search(r"^read_bytes_total 1536.0$", body, re.MULTILINE)


def test_numbers_beyond_all_are_written_as_prometheus_does() -> None:
    """Infinite numbers are written as Prometheus writes them, and the help is one line."""
    family = PrometheusFamily("x", "gauge", "a\nb\\", samples=[((), math.inf), ((("a", "b"),), -math.inf)])
    assert plain([family]).decode().splitlines() == [
        "# HELP x a\\nb\\\\",
        "# TYPE x gauge",
        "x +Inf",
        'x{a="b"} -Inf',
    ]
