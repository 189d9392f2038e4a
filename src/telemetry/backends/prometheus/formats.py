"""The choice of a scrape's format: the best one in its `Accept` header. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from telemetry.backends.exponential_histogram import FINEST, Cells, buckets, runs
from telemetry.backends.prometheus import text
from telemetry.backends.prometheus.families import Labels, PrometheusFamily, PrometheusHistogram

CONTENT_TYPE: Final = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
_TYPES: Final = {"counter": 0, "gauge": 1, "histogram": 4}
_VARINT: Final = 0
_DOUBLE: Final = 1
_BYTES: Final = 2
_ZERO_THRESHOLD: Final = 2.0**-128  # usual value; must be above 0, also for a series without values


# Prometheus reads native histograms only from this format, and classic buckets from text.


def delimited(families: Iterable[PrometheusFamily]) -> bytes:
    return b"".join(_delimited(_family(family)) for family in families)


def _family(family: PrometheusFamily) -> bytes:
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    parts = [_text(1, name), _text(2, family.help), _number(3, _TYPES[family.kind])]
    field = 3 if family.kind == "counter" else 2
    parts += [_message(4, _labels(labels) + _message(field, _double(1, value))) for labels, value in family.samples]
    parts += [
        _message(4, _labels(distribution.labels) + _message(7, b"".join(_histogram(distribution))))
        for distribution in family.distributions
    ]
    if family.unit:
        parts.append(_text(5, family.unit))
    return b"".join(parts)


def _histogram(distribution: PrometheusHistogram) -> Iterator[bytes]:
    """Encode both kinds of buckets. Clients without native histograms read the classic buckets."""
    yield _number(1, distribution.count)
    yield _double(2, distribution.total)
    for bound, count in distribution.buckets:
        yield _message(3, _number(1, count) + _double(2, bound))
    yield from _native(distribution.cells)


def _native(cells: Cells) -> Iterator[bytes]:
    """Encode native buckets. Their index is one higher than in other formats."""
    histogram = buckets(cells, FINEST)
    yield _number(5, _zigzag(FINEST))
    yield _double(6, _ZERO_THRESHOLD)
    yield _number(7, histogram.zero)
    end = 0
    for first, length in runs(histogram.counts):
        yield _message(12, _number(1, _zigzag(first + 1 - end)) + _number(2, length))
        end = first + 1 + length
    before = 0
    deltas = []
    for count in histogram.counts.values():
        deltas.append(_varint(_zigzag(count - before)))
        before = count
    if deltas:
        yield _message(13, b"".join(deltas))


def _labels(labels: Labels) -> bytes:
    return b"".join(_message(1, _text(1, key) + _text(2, value)) for key, value in labels)


# --- protobuf ------------------------------------------------------------------------------------


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode("utf-8", "replace"))


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _delimited(data)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | _DOUBLE) + struct.pack("<d", value)


def _delimited(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    """Encode a varint. `value` must not be negative."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class ScrapeFormat(NamedTuple):
    content_type: str
    encode: Callable[[Iterable[PrometheusFamily]], bytes]


PLAIN: Final = ScrapeFormat(text.PLAIN_TYPE, text.plain)
OPENMETRICS: Final = ScrapeFormat(text.OPEN_TYPE, text.openmetrics)
PROTOBUF: Final = ScrapeFormat(CONTENT_TYPE, delimited)
_OPEN_VERSIONS: Final = ("", "0.0.1", "1.0.0")
_ACCEPT_CHARS: Final = 4_096


def choose(accept: str) -> ScrapeFormat:
    """Choose a format. Clients that accept no known format, such as browsers, get text."""
    best, best_q = PLAIN, 0.0
    for media, parameters in _ranges(accept[:_ACCEPT_CHARS]):
        candidate = _format(media, parameters)
        q = _q(parameters.get("q", "1"))
        if candidate is not None and q > best_q:
            best, best_q = candidate, q
    return best


def _ranges(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    for part in accept.split(","):
        media, *rest = (word.strip() for word in part.split(";"))
        pairs = (word.partition("=") for word in rest)
        yield media.lower(), {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}


def _format(media: str, parameters: dict[str, str]) -> ScrapeFormat | None:
    if media == "application/vnd.google.protobuf":
        wanted = ("io.prometheus.client.MetricFamily", "delimited")
        return PROTOBUF if (parameters.get("proto"), parameters.get("encoding")) == wanted else None
    if media == "application/openmetrics-text":
        return OPENMETRICS if parameters.get("version", "") in _OPEN_VERSIONS else None
    return PLAIN if media in ("text/plain", "text/*", "*/*") else None


def _q(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return 0.0
