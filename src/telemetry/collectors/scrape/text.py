"""A reader for pages in the Prometheus text format, up to version 1.0.0, and in OpenMetrics.

A server repeats the names and labels of its series on every page. The reader parses each of them once, and later
looks up the text in front of the value. Lines with a timestamp or an exemplar are parsed each time.

A name with other characters than letters, digits, `_` and `:` is quoted: `{"http.requests", "a.b"="GET"} 1`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

OPEN_METRICS: Final = "application/openmetrics-text"
"""Content type of OpenMetrics. All other pages are read as Prometheus text."""
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_QUOTED: Final = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_LABEL: Final = re.compile(
    rf"[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*(?==)|{_QUOTED}[ \t]*)(?:=[ \t]*{_QUOTED}[ \t]*)?"
)
"""A label, or a quoted name alone, which is that of the metric."""
_SPACE: Final = re.compile(r"[ \t]*")
_ESCAPE: Final = re.compile(r'\\([\\n"])')
_MEANING: Final = re.compile(rf'#[ \t]+(TYPE|UNIT)[ \t]+(?:{_QUOTED}|([^" \t][^ \t]*))[ \t]+([^ \t]+)')
_MS: Final = 1e-3
_KNOWN_LEAST: Final = 1_000
_KNOWN_TIMES: Final = 2
"""Texts that are kept, relative to the samples of the newest page."""


class PageSeries:
    """A series as a page names it. The same object stands for the same text on all pages of a reader."""

    __slots__ = ("labels", "name", "text")

    def __init__(self, text: str, name: str, labels: dict[str, str]) -> None:
        self.text = text
        self.name = name
        self.labels = labels


class PageSample(NamedTuple):
    """One line of a page."""

    series: PageSeries
    value: float
    time_s: float | None = None
    """Unix time, if the server gives one."""


@dataclass
class Page:
    """The content of one page."""

    samples: list[PageSample] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    """Type by name, such as `counter`."""
    units: dict[str, str] = field(default_factory=dict)
    """Unit by name. Only OpenMetrics has units."""
    malformed: int = 0
    """Number of lines that can't be read."""
    first_malformed: str = ""


class PageReader:
    """A reader for the pages of one server."""

    def __init__(self) -> None:
        self._known: dict[str, PageSeries] = {}

    def read(self, data: bytes, content_type: str = "") -> Page:
        """Return the content of a page. Lines that can't be read are counted and left out."""
        page = Page()
        samples = page.samples
        add, lookup, make = samples.append, self._known.get, PageSample._make
        seconds = 1.0 if content_type.startswith(OPEN_METRICS) else _MS
        for line in data.decode("utf-8", "replace").split("\n"):
            text, _, value = line.rpartition(" ")
            series = lookup(text)
            if series is not None:
                try:
                    add(make((series, float(value), None)))
                    continue
                except ValueError:
                    pass
            if line[:1] == "#":
                _note(page, line)
            elif line and not line.isspace():
                sample = self._sample(line, seconds)
                if sample is not None:
                    add(sample)
                else:
                    page.malformed += 1
                    page.first_malformed = page.first_malformed or line[:100]
        self._forget(samples)
        return page

    def _sample(self, line: str, seconds: float) -> PageSample | None:
        """Parse a line; None if it is malformed."""
        line = line.strip()
        bare = _NAME.match(line)
        name, end = (bare[0], bare.end()) if bare is not None else ("", 0)
        at = _after_space(line, end)
        labels: dict[str, str] = {}
        if line.startswith("{", at):
            at += 1
            while (label := _LABEL.match(line, at)) is not None:
                key = label[1] or _unescaped(label[2])
                if not key or key in labels or (label[3] is None and name):
                    return None
                if label[3] is None:
                    name = key
                else:
                    labels[key] = _unescaped(label[3])
                at = label.end()
                if not line.startswith(",", at):
                    break
                at += 1
            at = _after_space(line, at)
            if not line.startswith("}", at):
                return None
            at += 1
        else:
            at = end
        numbers = line[at:].partition("#")[0].split()
        if not name or not 1 <= len(numbers) <= 2 or "_" in line[at:].partition("#")[0]:
            return None
        try:
            value = float(numbers[0])
            time_s = float(numbers[1]) * seconds if len(numbers) > 1 else None
        except ValueError:
            return None
        return PageSample(self._series(line[:at], name, labels), value, time_s)

    def _series(self, text: str, name: str, labels: dict[str, str]) -> PageSeries:
        series = self._known.get(text)
        if series is None:
            series = self._known[text] = PageSeries(text, name, labels)
        return series

    def _forget(self, samples: list[PageSample]) -> None:
        """Forget series that are gone from the page, once there are many of them."""
        if len(self._known) > max(_KNOWN_LEAST, _KNOWN_TIMES * len(samples)):
            self._known = {sample.series.text: sample.series for sample in samples}


def _note(page: Page, line: str) -> None:
    """Note the type or unit that a comment states."""
    match = _MEANING.match(line)
    if match is not None:
        name = match[3] or _unescaped(match[2])
        (page.types if match[1] == "TYPE" else page.units)[name] = match[4].strip()


def _after_space(line: str, at: int) -> int:
    match = _SPACE.match(line, at)
    return match.end() if match is not None else at


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text) if "\\" in text else text
