"""The limits of an MLflow request: 1,000 metrics, 100 params, 100 tags, 1 MB."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

_THINGS: Final = 1_000
_PARAMS: Final = 100
_TAGS: Final = 100
_BYTES: Final = 800_000  # of 1,000,000; the largest tag takes 96,000 as JSON
_AROUND: Final = 200  # bytes of a metric as JSON, without its name


class Point(NamedTuple):
    """A value of a metric."""

    key: str
    value: float
    time_ms: int
    step: int


class Batch:
    """The content of a request. It starts empty. Check `full` after each addition."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.params: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self.points or self.params or self.tags)

    @property
    def full(self) -> bool:
        return (
            len(self.points) + len(self.params) + len(self.tags) >= _THINGS
            or len(self.params) >= _PARAMS
            or len(self.tags) >= _TAGS
            or self._bytes >= _BYTES
        )

    def put(self, point: Point) -> None:
        self.points.append(point)
        self._bytes += _AROUND + (len(point.key) if point.key.isascii() else len(json.dumps(point.key)))

    def param(self, key: str, value: str) -> None:
        self.params[key] = value
        self._bytes += _AROUND + len(json.dumps([key, value]))

    def tag(self, key: str, value: str) -> None:
        self.tags[key] = value
        self._bytes += _AROUND + len(json.dumps([key, value]))
