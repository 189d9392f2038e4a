"""The choice of a scrape's format: the best one in its `Accept` header. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from telemetry.backends.prometheus import protobuf, text
from telemetry.backends.prometheus.family import Family


class Format(NamedTuple):
    content_type: str
    encode: Callable[[Iterable[Family]], bytes]


PLAIN: Final = Format(text.PLAIN_TYPE, text.plain)
OPENMETRICS: Final = Format(text.OPEN_TYPE, text.openmetrics)
PROTOBUF: Final = Format(protobuf.CONTENT_TYPE, protobuf.delimited)
_OPEN_VERSIONS: Final = ("", "0.0.1", "1.0.0")
_ACCEPT_CHARS: Final = 4_096


def choose(accept: str) -> Format:
    """Choose a format. Clients that accept no known format, such as browsers, get text."""
    best, best_q = PLAIN, 0.0
    for media, parameters in _ranges(accept[:_ACCEPT_CHARS]):
        found = _format(media, parameters)
        q = _q(parameters.get("q", "1"))
        if found is not None and q > best_q:
            best, best_q = found, q
    return best


def _ranges(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    for part in accept.split(","):
        media, *rest = (word.strip() for word in part.split(";"))
        pairs = (word.partition("=") for word in rest)
        yield media.lower(), {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}


def _format(media: str, parameters: dict[str, str]) -> Format | None:
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
