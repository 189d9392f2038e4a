"""The reader of pages, with prometheus_client's parsers as the oracle."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from telemetry.collectors.scrape.text import OPEN_METRICS, PageReader

VLLM = (Path(__file__).parent / "vllm_page.txt").read_bytes()
Found = list[tuple[str, dict[str, str], float, float | None]]

NASTY = r"""# a comment
# HELP odd A help text with \\ and \n
# TYPE odd untyped
odd{path="C:\\DIR\\",quote="\"",line="a\nb",brace="}{,=",other="\q"} 1
odd{ a = "1" , b = "2" , } 2
odd 3 1700000000123
odd{a="7"}   4   -5
	odd{a="tab"}	6
nan NaN
up +Inf
down -Inf
small 1e-300
big 12345678901234567890
empty{} 0
"""


def own(data: bytes, content_type: str = "", reader: PageReader | None = None) -> Found:
    page = (reader or PageReader()).read(data, content_type)
    assert page.malformed == 0, page.first_malformed
    return [(sample.series.name, sample.series.labels, sample.value, sample.time_s) for sample in page.samples]


def same(ours: Found, theirs: Found) -> bool:
    """Compare with NaN equal to NaN, and times to the microsecond."""
    return len(ours) == len(theirs) and all(
        one[:2] == other[:2]
        and (one[2] == float(other[2]) or (math.isnan(one[2]) and math.isnan(other[2])))
        and (one[3] == other[3] or math.isclose(one[3] or 0.0, float(other[3] or 0.0), abs_tol=1e-6))
        for one, other in zip(ours, theirs, strict=True)
    )


def oracle(data: bytes) -> Found:
    """Samples by prometheus_client, which adds `_total` to the names of counters without it."""
    return [
        (sample.name, sample.labels, sample.value, sample.timestamp)
        for family in text_families(data.decode())
        for sample in family.samples
    ]


@pytest.mark.parametrize("page", [VLLM, NASTY.encode()], ids=["vllm", "nasty"])
def test_samples_equal_those_of_the_oracle(page: bytes) -> None:
    """Samples equal those of the oracle on the first page, and on a page that the reader knows."""
    reader = PageReader()
    wanted = oracle(page)
    assert len(wanted) > 10
    assert same(own(page, reader=reader), wanted)
    assert same(own(page, reader=reader), wanted)


QUOTED = r"""# TYPE "http.requests" counter
{"http.requests", method="GET"} 1
{"http.requests","http.method"="PO\"ST",} 2 1700000000123
# TYPE "a b" gauge
{method="x","a b"} 3
plain{"http.method"="GET", code="200"} 4
{ "nasty \"\\\n{}=," } 5
"""


def test_quoted_names_are_those_of_the_oracle() -> None:
    """Prometheus 3 writes names with other characters than letters, digits, `_` and `:` in quotes and braces."""
    wanted = [(name.replace("requests_total", "requests"), *rest) for name, *rest in oracle(QUOTED.encode())]
    reader = PageReader()
    assert len(wanted) == 5
    assert same(own(QUOTED.encode(), reader=reader), wanted)
    assert same(own(QUOTED.encode(), reader=reader), wanted)
    assert reader.read(QUOTED.encode()).types == {"http.requests": "counter", "a b": "gauge"}


def test_types_are_those_of_the_page() -> None:
    """Types belong to the name that stands in the comment."""
    types = PageReader().read(VLLM).types
    assert types["vllm:num_requests_running"] == "gauge"
    assert types["vllm:prompt_tokens_total"] == "counter"
    assert types["vllm:time_to_first_token_seconds"] == "histogram"


def test_open_metrics_has_exemplars_units_and_seconds() -> None:
    """Timestamps are seconds there, and milliseconds in the text format."""
    page = (
        b"# TYPE lat_seconds histogram\n# UNIT lat_seconds seconds\n# HELP lat_seconds Time\n"
        b'lat_seconds_bucket{le="0.5"} 3 # {trace_id="a # b"} 0.4 1700000000.5\n'
        b'lat_seconds_bucket{le="+Inf"} 4\nlat_seconds_count 4\nlat_seconds_sum 1.5\n'
        b"lat_seconds_created 1700000000.0\n# TYPE hits counter\nhits_total 7 1700000001.25\n# TYPE build info\n"
        b'build_info{version="1"} 1\n# EOF\n'
    )
    wanted = [
        (sample.name, sample.labels, sample.value, sample.timestamp)
        for family in open_families(page.decode())
        for sample in family.samples
    ]
    assert same(
        own(page, f"{OPEN_METRICS}; version=1.0.0"),
        [(a, b, c, None if d is None else float(d)) for a, b, c, d in wanted],
    )
    assert PageReader().read(page, OPEN_METRICS).units == {"lat_seconds": "seconds"}
    [sample] = PageReader().read(b"a 1 1500\n").samples
    assert sample.time_s == 1.5


def test_series_are_the_same_objects_on_each_page() -> None:
    """The state of a counter hangs on them."""
    reader = PageReader()
    [first], [again] = reader.read(b'a{b="c"} 1\n').samples, reader.read(b'a{b="c"} 2 77\n').samples
    assert first.series is again.series
    assert (first.value, again.value) == (1.0, 2.0)


def test_series_that_are_gone_are_forgotten() -> None:
    """Labels that change on each page fill no memory; a series that stays keeps its object."""
    reader = PageReader()
    kept = reader.read(b"stays 1\n").samples[0].series
    for page in range(40):
        lines = "".join(f'churn{{id="{page}-{at}"}} 1\n' for at in range(100))
        newest = reader.read(f"stays 1\n{lines}".encode()).samples[0].series
    assert newest is kept
    assert len(reader._known) <= 1_100


@pytest.mark.parametrize(
    "line",
    [
        "1abc 2",
        "a",
        "a{",
        'a{b="c} 1',
        'a{b="c"',
        "a{b=c} 1",
        "a 1 2 3",
        "a x",
        "a 1_000",
        'a{b="1",b="2"} 1',
        "{} 1",
        '{""} 1',
        '{"a","b"} 1',
        'a{"b"} 1',
        '{"a",""="b"} 1',
        '{"a} 1',
        "{a} 1",
    ],
)
def test_a_malformed_line_is_counted(line: str) -> None:
    """The lines around it are read."""
    page = PageReader().read(f"first 1\n{line}\nlast 2\n".encode())
    assert [sample.series.name for sample in page.samples] == ["first", "last"]
    assert (page.malformed, page.first_malformed) == (1, line)


def test_a_line_that_breaks_later_is_counted_then() -> None:
    """A known series without a number is no sample."""
    reader = PageReader()
    reader.read(b"a 1\n")
    page = reader.read(b"a one\n")
    assert (page.samples, page.malformed) == ([], 1)


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
LABELS = st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), st.text(max_size=12), max_size=4)
VALUES = st.floats() | st.integers(-(10**9), 10**9).map(float)
STAMPS = st.none() | st.integers(0, 10**13)


def line(name: str, labels: dict[str, str], value: float, stamp: int | None) -> str:
    pairs = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {value!r}{'' if stamp is None else f' {stamp}'}\n"


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@given(st.lists(st.tuples(NAMES, LABELS, VALUES, STAMPS), max_size=12))
def test_any_page_is_read_as_it_was_written(lines: list[tuple[str, dict[str, str], float, int | None]]) -> None:
    """Names, labels with any character, values and timestamps."""
    text = "".join(line(*one) for one in lines)
    wanted: Found = [
        (name, labels, value, None if stamp is None else stamp / 1_000) for name, labels, value, stamp in lines
    ]
    reader = PageReader()
    for _ in range(2):
        assert same(own(text.encode(), reader=reader), wanted)


@given(st.binary(max_size=300) | st.text(alphabet='ab_:{}="\\,# \t\n01.e+NaInf', max_size=120).map(str.encode))
def test_hostile_bytes_never_raise(data: bytes) -> None:
    """Bytes that are no sample are counted. The same page is read the same way twice."""
    reader = PageReader()
    for content_type in ("", OPEN_METRICS):
        first, again = reader.read(data, content_type), reader.read(data, content_type)
        assert len(first.samples) == len(again.samples)
        assert first.malformed == again.malformed
        assert len(first.samples) + first.malformed <= data.count(b"\n") + 1
