"""The `console` backend: a run as a few lines of text at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from telemetry.backends.backend import RunFacts
from telemetry.backends.items import Artifact, Item, Mark, Params, Reading, SeriesReading, Step, Text
from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.common.wording import labelled

_LINE_CHARS: Final = 400
_LINES: Final = 20  # printed at once; older lines are only counted


class ConsoleOptions(Struct, frozen=True, forbid_unknown_fields=True):
    every_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 2.0
    """Minimum seconds between two outputs."""
    values: Annotated[int, Meta(ge=1, le=1_000)] = 8
    """Maximum number of values in a line."""


class ConsoleBackend:
    """A backend that prints the newest step of each axis, the newest reading, and every other item."""

    Options: ClassVar[type[Struct]] = ConsoleOptions
    takes: ClassVar[tuple[type[Item], ...]] = (Step, Reading, Params, Mark, Text, Artifact)
    idempotent: ClassVar[bool] = False

    say: Callable[[str], object]
    """Function that prints a line."""

    def __init__(self, options: ConsoleOptions, place: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.say = print
        self._options = options
        self._clock = clock
        self._next_s = 0.0
        self._held: dict[str, str] = {}
        """Subject of a line → the line."""
        self._left = 0
        self._open = False

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self._open = True

    def write(self, items: Sequence[Item]) -> None:
        for item in items:
            about, text = _about(item), self._line(item)
            self._held.pop(about, None)  # move the newest to the end
            self._held[about] = text
        while len(self._held) > _LINES:
            del self._held[next(iter(self._held))]
            self._left += 1
        if self._clock() >= self._next_s:
            self._tell()

    def flush(self) -> None:
        """Keep waiting lines. They are printed later or replaced by newer ones."""

    def state(self) -> dict[str, Any]:
        return {}

    def close(self, *, final: bool) -> None:
        self._tell()

    def where(self) -> str:
        return "stderr" if self._open else ""

    def _tell(self) -> None:
        if self._left:
            self.say(f"{number_of(self._left, 'line is', 'lines are')} omitted")
        for text in self._held.values():
            self.say(text if len(text) <= _LINE_CHARS else f"{text[:_LINE_CHARS]}…")
        self._held, self._left = {}, 0
        self._next_s = self._clock() + self._options.every_s

    def _line(self, item: Item) -> str:
        if isinstance(item, Step):
            return f"{printable(item.axis)} {item.step:,}: {self._few(_numbers(item.values))}"
        if isinstance(item, Reading):
            when = "result" if item.final else formatting.duration_s(item.elapsed_s)
            return f"{when}: {self._few(_instruments(item)) or 'nothing yet'}"
        if isinstance(item, Params):
            return f"params: {self._few(f'{printable(key)}={value}' for key, value in item.values.items())}"
        if isinstance(item, Text):
            return f"{printable(item.name)}: {printable(item.text)}"
        if isinstance(item, Artifact):
            return f"{printable(item.name)}: {printable(item.uri)}"
        return printable(item.text) if isinstance(item, Mark) else ""

    def _few(self, parts: Iterator[str]) -> str:
        texts = list(parts)
        most = self._options.values
        more = f", and {len(texts) - most:,} more" if len(texts) > most else ""
        return ", ".join(texts[:most]) + more


def _about(item: Item) -> str:
    """Return the subject of an item. A newer line about the same subject replaces a waiting one."""
    if isinstance(item, Step):
        return f"step {item.axis}"
    return "reading" if isinstance(item, Reading) and not item.final else item.key


def _numbers(values: dict[str, float]) -> Iterator[str]:
    return (f"{printable(name)} {formatting.scaled(value)}" for name, value in values.items())


def _instruments(reading: Reading) -> Iterator[str]:
    for series in reading.series:
        if series.count:
            yield _series(series)
    for counter in reading.counters:
        name = printable(labelled(counter.name, counter.labels))
        yield f"{name} {formatting.quantity(counter.value, counter.unit)}"
    for gauge in reading.gauges:
        yield f"{printable(labelled(gauge.name, gauge.labels))} {formatting.quantity(gauge.value, gauge.unit)}"


def _series(series: SeriesReading) -> str:
    shown = [f"p{key} {formatting.quantity(value, series.unit)}" for key, value in series.percentiles.items()]
    kept = [*shown[:1], *shown[-1:]] if len(shown) > 2 else shown
    return " ".join([printable(labelled(series.name, series.labels)), *kept, formatting.rate(series.rate)])
