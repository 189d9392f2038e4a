"""Names of instruments in Prometheus."""

from __future__ import annotations

import re
import string
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.prometheus.names import Names, PrometheusUnit, label, labels, unit_of
from telemetry.wire.events import Kind

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
NONE = unit_of("")
KINDS: list[Kind] = ["counter", "gauge", "series"]
WORDS = st.lists(
    st.sampled_from([*"a_/.:1λ", "_total", "_sum", "_count", "seconds", "telemetry_", "U__", "_2f_"]), min_size=1
).map("".join)
SAMPLES = {
    "counter": ["_total"],
    "gauge": [""],
    "series": ["_bucket", "_sum", "_count", "_percentile", "_min", "_max"],
}


@pytest.mark.parametrize(
    ("kind", "name", "unit", "wanted"),
    [
        ("series", "latency", "ms", "latency_seconds"),
        ("series", "latency_seconds", "s", "latency_seconds"),
        ("series", "http.server/duration-ms", "µs", "http_server_duration_ms_seconds"),
        ("counter", "requests", "", "requests"),
        ("counter", "requests_total", "1", "requests"),
        ("counter", "read", "KiB", "read_bytes"),
        ("counter", "tokens", "tokens", "tokens"),
        ("gauge", "speed", "MB/s", "speed_bytes_per_second"),
        ("gauge", "2nd", "%", "_2nd_ratio"),
        ("gauge", "process.count", "", "process_count_value"),
        ("gauge", "pool_total", "", "pool_total_value"),
        ("gauge", "pool_total", "B", "pool_total_bytes"),
        ("series", "rows_total", "", "rows_total_value"),
        ("series", "rows_count", "", "rows_count"),
        ("counter", "rows.count", "", "rows_count"),
        ("gauge", "telemetry_x", "", "U__telemetry__x"),
        ("gauge", "λ/x", "ms", "U___3bb__2f_x_seconds"),
    ],
)
def test_names_are_as_prometheus_wants_them(kind: Kind, name: str, unit: str, wanted: str) -> None:
    """A name in Prometheus has its base unit behind it and repeats nothing."""
    assert Names().family(kind, name, unit_of(unit)) == wanted


@given(st.lists(st.tuples(st.sampled_from(KINDS), WORDS, st.sampled_from(["", "ms", "B"])), max_size=30))
def test_two_instruments_never_share_a_name(found: list[tuple[Kind, str, str]]) -> None:
    """Nor does one have a name that samples of another have."""
    names, owners = Names(), {}
    for kind, name, unit in {(kind, name): (kind, name, unit) for kind, name, unit in found}.values():
        family = names.family(kind, name, unit_of(unit))
        for suffix in SAMPLES[kind]:
            assert NAME.fullmatch(family + suffix)
            assert owners.setdefault(family + suffix, (kind, name)) == (kind, name)
            assert not family.startswith("telemetry_")


def test_the_second_of_two_is_written_out_and_stays_so() -> None:
    """The next process calls both the same, whichever it sees first."""
    names = Names()
    assert names.family("gauge", "a/b", NONE) == "a_b"
    assert names.family("gauge", "a_b", NONE) == "U__a__b"
    assert names.family("gauge", "other", NONE) == "other"
    assert len(names.claims()) == 2
    later = Names(names.claims())
    assert later.family("gauge", "a_b", NONE) == "U__a__b"
    assert later.family("gauge", "a/b", NONE) == "a_b"


def test_a_gauge_is_not_taken_for_a_part_of_a_series() -> None:
    """A gauge never gets the name of a part of a series, whichever came first."""
    names = Names()
    assert names.family("series", "latency", unit_of("s")) == "latency_seconds"
    assert names.family("gauge", "latency_seconds_min", NONE) == "U__latency__seconds__min"
    names = Names()
    assert names.family("gauge", "latency_seconds_min", NONE) == "latency_seconds_min"
    assert names.family("series", "latency", unit_of("s")) == "U__latency_seconds"
    names = Names()
    assert [names.family("counter", "overflow", NONE), names.family("gauge", "overflow", NONE)] == [
        "overflow",
        "U__overflow",
    ]
    assert names.family("series", "overflow", NONE) == "U__overflow_series_1"


@given(st.sets(WORDS | st.text(min_size=1, max_size=5), max_size=20))
def test_labels_stay_different(keys: set[str]) -> None:
    """Labels stay different and get no name that has a meaning in Prometheus."""
    found = {label(key) for key in keys}
    assert len(found) == len(keys)
    assert all(NAME.fullmatch(name) and not name.startswith("__") for name in found)
    assert not found & {"le", "quantile", "percentile"}


def test_labels_come_by_their_names() -> None:
    """Labels are in the order of their names, as every format wants them."""
    assert labels({"z": "1", "le": "2", "a": "3"}) == (("U__le", "2"), ("a", "3"), ("z", "1"))
    assert label("__name__") == "U______name____"


@pytest.mark.parametrize(
    ("unit", "wanted"),
    [
        ("ns", PrometheusUnit("seconds", Fraction(1, 10**9))),
        ("h", PrometheusUnit("seconds", Fraction(3600))),
        ("GiB", PrometheusUnit("bytes", Fraction(2**30))),
        ("tokens/s", PrometheusUnit("tokens_per_second", Fraction(1))),
        ("tokens/ms", PrometheusUnit("tokens_per_second", Fraction(1000))),
        ("1/s", PrometheusUnit("per_second", Fraction(1))),
        ("", PrometheusUnit("", Fraction(1))),
        ("weird unit!", PrometheusUnit("weird_unit", Fraction(1))),
        ("火", PrometheusUnit("", Fraction(1))),
    ],
)
def test_units_are_base_units(unit: str, wanted: PrometheusUnit) -> None:
    """One that nobody knows keeps its word."""
    assert unit_of(unit) == wanted
    assert set(wanted.word) <= {*string.ascii_letters, *string.digits, "_"}
