"""Attributes of OpenTelemetry as texts and labels, and its times as times of the monotonic clock."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

SERVICE: Final = "service"
"""Label and track of a resource's `service.name`. Other attributes of a resource are left out."""
_SERVICE_NAME: Final = "service.name"
_GREATEST_NS: Final = (1 << 63) - 1


class UnixClock:
    """A conversion of Unix times to the monotonic clock, with one distance for all times of a request."""

    def __init__(self) -> None:
        self._shift_ns = time.monotonic_ns() - time.time_ns()

    def monotonic_ns(self, unix_ns: int) -> int | None:
        """Return the time on the monotonic clock. Return None if this machine started later."""
        time_ns = unix_ns + self._shift_ns
        return time_ns if 0 < time_ns <= _GREATEST_NS else None


def service_of(resource: Any) -> str:
    """Return the name of the service, or an empty text."""
    return next((text_of(pair.value) for pair in resource.attributes if pair.key == _SERVICE_NAME), "")


def texts_of(attributes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield attributes with their values as texts, in their order. Attributes without a value are left out."""
    for pair in attributes:
        text = text_of(pair.value)
        if text:
            yield pair.key, text


def text_of(value: Any) -> str:
    """Return the value of an attribute as a text. Bytes become hexadecimal, and all but texts is JSON."""
    plain = _plain(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()


def _plain(value: Any) -> Any:
    """Return the value in types of JSON. The decoder has bounded the depth."""
    match value.WhichOneof("value"):
        case "string_value" | "bool_value" | "int_value" as kind:
            return getattr(value, kind)
        case "double_value":
            number = value.double_value
            return number if math.isfinite(number) else repr(number)  # JSON has no infinity
        case "bytes_value":
            return value.bytes_value.hex()
        case "array_value":
            return [_plain(each) for each in value.array_value.values]
        case "kvlist_value":
            return {pair.key: _plain(pair.value) for pair in value.kvlist_value.values}
    return None
