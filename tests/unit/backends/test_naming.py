"""Flat names and names in fewer characters: nothing becomes one that was two."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.items import CounterReading, GaugeReading, Reading, SeriesReading
from telemetry.backends.naming import escape, flat, unescape
from telemetry.common.wording import labelled

LATENCY = SeriesReading(
    name="latency",
    labels={"route": "/a", "method": "GET"},
    count=3,
    rate=1.5,
    total=6.0,
    min=1.0,
    max=3.0,
    mean=2.0,
    percentiles={"50": 2.0, "99.9": 3.0},
)


def reading(**parts: object) -> Reading:
    return Reading(key="t1", time_ns=1, elapsed_s=1.0, seconds=1.0, **parts)  # type: ignore[arg-type]


def test_numbers_have_the_names_of_their_parts() -> None:
    """Series, counters and gauges as trackers show them, in the order of the reading."""
    found = flat(
        reading(
            series=[LATENCY],
            counters=[CounterReading(name="requests", value=7.0, rate=0.7)],
            gauges=[GaugeReading(name="load", value=0.5)],
        )
    )
    head = "latency{method=GET,route=/a}"
    assert list(found.items()) == [
        (f"{head}/p50", 2.0),
        (f"{head}/p99.9", 3.0),
        (f"{head}/mean", 2.0),
        (f"{head}/min", 1.0),
        (f"{head}/max", 3.0),
        (f"{head}/count", 3),
        (f"{head}/rate", 1.5),
        ("requests", 7.0),
        ("requests/rate", 0.7),
        ("load", 0.5),
    ]


def test_the_result_stands_apart() -> None:
    """Names of the final reading begin with `final/`; what a series without values lacks is left out."""
    found = flat(reading(series=[SeriesReading(name="a")], gauges=[GaugeReading(name="b", value=1.0)], final=True))
    assert found == {"final/a/count": 0, "final/a/rate": 0.0, "final/b": 1.0}


def test_an_instrument_called_as_a_number_of_another_keeps_its_value() -> None:
    """An instrument whose name is that of another's number keeps its value."""
    gauges = [GaugeReading(name="requests/rate", value=5.0)]
    found = flat(reading(counters=[CounterReading(name="requests", value=1.0, rate=2.0)], gauges=gauges))
    assert found == {"requests": 1.0, "requests/rate": 2.0, "requests/rate (gauge)": 5.0}


@given(
    st.lists(st.tuples(st.text("ab{},=\\"), st.dictionaries(st.text("a{},=\\"), st.text("b{},=\\"))), max_size=8)
)
def test_labels_tell_instruments_apart(instruments: list[tuple[str, dict[str, str]]]) -> None:
    """Labels tell instruments apart, whatever signs names and labels are made of."""
    distinct = {(name, tuple(sorted(labels.items()))) for name, labels in instruments}
    assert len({labelled(name, dict(labels)) for name, labels in distinct}) == len(distinct)


@given(st.text(), st.sampled_from([("%", string.ascii_letters + string.digits + "/._-"), ("_", "0123456789")]))
def test_what_is_escaped_comes_back(name: str, how: tuple[str, str]) -> None:
    """An escaped name has only allowed characters, hexadecimal digits and the mark. The name can be read again."""
    mark, allowed = how
    text = escape(name, allowed, mark)
    assert set(text) <= set(allowed + mark + "0123456789ABCDEF")
    assert unescape(text, mark) == name


def test_names_that_need_nothing_stay_as_they_are() -> None:
    """A name that needs nothing stays as it is. A mark that stands for no byte remains a mark."""
    assert escape("train/loss", string.ascii_letters + "/") == "train/loss"
    assert escape("é 1", string.digits) == "%C3%A9%201"
    assert unescape("100% of") == "100% of"
