"""Families as messages."""

from __future__ import annotations

from tests.backends.reading_prometheus import PROTOBUF, TEXT, messages, samples
from tests.unit.backends.prometheus.given import SNAPSHOT

from telemetry.backends.prometheus.families import families
from telemetry.backends.prometheus.formats import delimited
from telemetry.backends.prometheus.names import Names
from telemetry.backends.prometheus.text import plain

FOUND = families(SNAPSHOT, "here", Names())


def test_it_says_what_text_says() -> None:
    """The messages of protobuf mean the same as the text, as protobuf's own library reads them."""
    mine, text = samples(PROTOBUF, delimited(FOUND)), samples(TEXT, plain(FOUND))
    assert repr(sorted(mine.items(), key=repr)).replace(".0", "") == repr(sorted(text.items(), key=repr)).replace(
        ".0", ""
    )


def test_native_buckets_are_where_the_cells_are() -> None:
    """Spans and differences, taken apart again."""
    (family,) = [one for one in messages(delimited(FOUND)) if one.name == "latency_seconds"]
    assert (family.type, family.unit) == (4, "seconds")
    first, empty = (metric.histogram for metric in family.metric)
    assert (first.schema, first.zero_count, first.sample_count) == (3, 1, 5)
    index, count, found = 0, 0, {}
    deltas = iter(first.positive_delta)
    for span in first.positive_span:
        index += span.offset
        for _ in range(span.length):
            count += next(deltas)
            found[2.0 ** ((index - 1) / 8), 2.0 ** (index / 8)] = count
            index += 1
    assert list(deltas) == []
    assert sum(found.values()) == 4
    for cell, wanted in (((196_608e-9, 229_376e-9), 3), ((10.737418240, 12.884901888), 1)):
        here = {place: many for place, many in found.items() if place[0] < cell[1] and place[1] > cell[0]}
        assert sum(here.values()) == wanted
    assert (empty.sample_count, len(empty.positive_span), empty.zero_threshold > 0.0) == (0, 0, True)
