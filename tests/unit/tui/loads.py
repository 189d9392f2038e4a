"""A run with requests, played through the aggregator itself: two kinds, of one two tracking windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
from tests.unit.tui.feeds import SECOND_NS, FakeFeed, Recorded

from telemetry.testing.builders import MONO_NS
from telemetry.testing.clock import FakeClock
from telemetry.tui.feed.news import NewSnapshot
from telemetry.wire import requests as words
from telemetry.wire.events import Define, EventRecord, Mark, Params
from telemetry.wire.snapshot import MetricsSnapshot

SECONDS = 60
TRACKED_FROM = 15
LATE = 40
"""From this second on the server is slow for a while, and requests go out late."""
PRODUCERS = (("client-0", 0),)
_REASONS = ("timeout", "http_503", "http_500", "connection reset by peer")
_FINISHES = ("stop", "length")

Row = tuple[float, int, float]


class Requests:
    """Instruments by name and labels, and rows by the second in which they are recorded."""

    def __init__(self) -> None:
        self.defines: list[Define] = []
        self.rows: dict[int, list[Row]] = {}
        self._ids: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}

    def record(self, at_ns: int, kind: str, word: str, value: float, labels: Mapping[str, str]) -> None:
        name, key = words.name_of(kind, word), tuple(sorted(labels.items()))
        if (name, key) not in self._ids:
            self._ids[name, key] = len(self._ids)
            what, unit = words.INSTRUMENTS[word]
            within = words.name_of(kind, words.LATENCY) if word in words.WITHIN else ""
            self.defines.append(Define(self._ids[name, key], name, what, unit, dict(labels), within=within))
        row = (self._ids[name, key], MONO_NS + at_ns, value)
        self.rows.setdefault(at_ns // SECOND_NS, []).append(row)

    def chat(self, random: np.random.Generator, second: int) -> None:
        """40 a second that stream their answer; each 50th fails."""
        own = {"model": "llama-70b", words.WINDOW: "measured" if second >= TRACKED_FROM else "warm-up"}
        for number in range(40):
            planned_ns = second * SECOND_NS + number * SECOND_NS // 40
            late = random.exponential(0.9e9) if LATE <= second < LATE + 4 else random.exponential(2e5)
            issued_ns = planned_ns + int(late)
            self.record(issued_ns, "chat", words.ISSUED, 1, own)
            ttft_ns = int(random.lognormal(np.log(60e6), 0.5))
            gaps = random.lognormal(np.log(9.5e6), 0.25, int(random.integers(8, 40))).astype(int).tolist()
            latency_ns = ttft_ns + sum(gaps)
            done_ns = issued_ns + latency_ns
            if (second * 40 + number) % 50 == 7:
                reason = _REASONS[int(random.choice(4, p=[0.6, 0.25, 0.1, 0.05]))]
                self.record(done_ns, "chat", words.FAILED, 1, {**own, words.REASON: reason})
                self.record(done_ns, "chat", words.FAILED_LATENCY, latency_ns, own)
                continue
            finish = _FINISHES[number % 7 == 0]
            self.record(done_ns, "chat", words.COMPLETED, 1, {**own, words.FINISH: finish})
            figures = {
                words.LATENCY: latency_ns,
                words.CORRECTED: done_ns - planned_ns,
                words.QUEUE_DELAY: issued_ns - planned_ns,
                words.TTFT: ttft_ns,
                words.TPOT: sum(gaps) // len(gaps),
                words.INPUT_TOKENS: 400 + number,
                words.OUTPUT_TOKENS: len(gaps) + 1,
            }
            for word, value in figures.items():
                self.record(done_ns, "chat", word, value, own)
            met = {"ttft": ttft_ns <= 150e6, "tpot": sum(gaps) // len(gaps) <= 11e6}
            for key, is_met in met.items():
                self.record(done_ns, "chat", words.MET, int(is_met), {**own, words.SLO: key})
            self.record(done_ns, "chat", words.GOOD, int(all(met.values())), own)
            for gap in gaps:
                self.record(done_ns, "chat", words.ITL, gap, own)

    def embed(self, random: np.random.Generator, second: int) -> None:
        """25 a second, of which some are never heard of again."""
        for number in range(25):
            issued_ns = second * SECOND_NS + number * SECOND_NS // 25
            latency_ns = int(random.lognormal(np.log(12e6), 0.3))
            self.record(issued_ns, "embed", words.ISSUED, 1, {})
            if number or second % 20:
                self.record(issued_ns + latency_ns, "embed", words.COMPLETED, 1, {})
                self.record(issued_ns + latency_ns, "embed", words.LATENCY, latency_ns, {})
            elif second < 40:
                self.record(issued_ns + 20 * SECOND_NS, "embed", words.EXPIRED, 1, {})


class Load(Recorded):
    """A run with requests: its snapshot at each second, and its history."""

    def __init__(self, kinds: tuple[str, ...] = ("chat", "embed")) -> None:
        made, random = Requests(), np.random.default_rng(11)
        for second in range(SECONDS):
            if "chat" in kinds:
                made.chat(random, second)
            if "embed" in kinds:
                made.embed(random, second)
        self._made = made
        super().__init__("llm-bench", PRODUCERS, SECONDS)

    def records(self, second: int, rank: int) -> Iterator[EventRecord]:
        if second == 0:
            yield from self._made.defines
            yield Params({"slo.chat{model=llama-70b}": "ttft:150ms tpot:11ms"})
        marks = {0: "tracking warm-up began", TRACKED_FROM: "tracking measured began", LATE: "slow for a while"}
        if second in marks:
            yield Mark(marks[second], MONO_NS + second * SECOND_NS)

    def rows(self, second: int, rank: int, begin_ns: int) -> list[Row]:
        return self._made.rows.get(second, [])


@cache
def load(*kinds: str) -> Load:
    """Played once."""
    return Load(kinds) if kinds else Load()


def live(snapshot: MetricsSnapshot | None = None, *kinds: str) -> FakeFeed:
    """Return a feed of the run at its last second, as `FakeClock` has it.

    A snapshot from a few seconds before was heard, too.
    """
    played = load(*kinds)
    heard = [
        NewSnapshot(each, FakeClock().monotonic_ns()) for each in (played.snapshots[-8], snapshot or played.last)
    ]
    return FakeFeed(*heard, played.trends(), run=played)
