"""Figures of a kind of request, of a service or a language model, and of all kinds together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from telemetry.common import slo
from telemetry.common.formatting import NOTHING, count, duration_s, listed, number_of, printable
from telemetry.common.headline_choice import MOST
from telemetry.common.wording import instrument
from telemetry.errors import UsageError
from telemetry.history.headlines.model import (
    Figure,
    Headline,
    Health,
    failures_second,
    largest,
    per_second,
    percentile,
    whole,
    with_median,
)
from telemetry.history.rates import Paces, recent_rate
from telemetry.history.rates import per_second as _per_s
from telemetry.history.request_model import RequestCounts, joined, late_at
from telemetry.wire import requests as words
from telemetry.wire.report import Rate, Rates, RequestFigures
from telemetry.wire.snapshot import MetricsSnapshot

ATTAINED: Final = 0.99
"""Share of requests within their limits from which the share is good."""
_HALF: Final = 0.5
"""Share below which it is bad."""
TIMES: Final = {words.TTFT: "TTFT", words.TPOT: "TPOT", words.ITL: "ITL", words.LATENCY: "latency"}
"""Times that a user of requests looks at first, with their titles, in the order of a headline."""
_OWN_LABELS: Final = frozenset({words.WINDOW, words.REASON, words.FINISH})
_REASONS: Final = 2


class Load:
    """One kind of request in a snapshot. `recent`: figures of the last seconds."""

    def __init__(
        self,
        kind: RequestCounts,
        snapshot: MetricsSnapshot,
        *,
        recent: bool,
        figures: Sequence[RequestFigures] = (),
        seconds: float | None = None,
    ) -> None:
        """Take the figures of the whole run, or of a time range of `seconds`."""
        self.kind = kind
        self._recent = recent
        self._figures = next(
            (
                candidate
                for candidate in figures
                if candidate.kind == kind.kind and candidate.labels == dict(kind.labels)
            ),
            None,
        )
        latency = kind.series.get(words.LATENCY)
        self._seconds = seconds
        if seconds and latency is not None:
            self._seconds = Paces(snapshot, seconds).of(latency).seconds
        self.recent_rates = _recent_rates(kind, snapshot) if recent else {}

    def headline(self) -> Headline:
        """Return the figures that a user of such requests looks at first."""
        is_llm = self.kind.has_tokens
        figures = [self.requests_per_s(), *(self._llm() if is_llm else self._plain()), self.failed()]
        if self._recent:
            figures.append(whole("in flight", self.kind.in_flight))
        subject = instrument(self.kind.kind, self.kind.labels)
        return Headline("llm" if is_llm else "load", subject, failures_second(figures)[:MOST])

    def _plain(self) -> Iterator[Figure]:
        goodput = self.attainment()
        if goodput is not None:
            yield goodput
        latency = self.kind.series.get(words.LATENCY)
        for key in ("50", "99"):
            yield self._from_planned(percentile(f"latency p{key}", latency, key, recent=self._recent))
        if not self._recent:
            yield largest("latency max", latency)

    def _llm(self) -> Iterator[Figure]:
        tokens = self.kind.series.get(words.OUTPUT_TOKENS)
        if tokens is not None and tokens.count:
            yield per_second("output tokens/s", self.tokens_per_s)
        goodput = self.attainment()
        if goodput is not None:
            yield goodput
        tpot = self.kind.series.get(words.TPOT)
        left_out = {words.ITL if tpot is not None and tpot.count else words.TPOT}
        if goodput is not None and self._recent:  # seven figures are the most
            left_out.add(words.LATENCY)
        for word, title in TIMES.items():
            if word not in left_out:
                for figure in with_median(title, self.kind.series.get(word), recent=self._recent):
                    yield self._from_planned(figure) if word == words.LATENCY else figure

    def _from_planned(self, latency: Figure) -> Figure:
        """Add the percentile counted from the planned times to its note, if requests were clearly late."""
        corrected = self.kind.series.get(words.CORRECTED)
        if corrected is None or not late_at(self.kind):
            return latency
        planned = percentile("", corrected, latency.title.rpartition(" p")[2], recent=self._recent)
        if planned.value is None:
            return latency
        return replace(latency, note=", ".join(filter(None, (latency.note, f"from planned {planned.text}"))))

    def requests_per_s(self) -> Figure:
        """Return the rate of completed requests, from the first issue to the last completion."""
        if self._recent:
            return per_second("requests/s", self.recent_rates.get(words.COMPLETED, 0.0))
        rate = self._per_s(self.kind.completed, self.kind.rates.overall.requests_per_s)
        if rate is None and self._figures is not None:
            rate = self._figures.rates.overall.requests_per_s
        if rate is None and not self.kind.completed:
            rate = 0.0
        issued = f" of {count(self.kind.issued)}" if self.kind.in_flight >= 0 else ""
        took = self.kind.completed / rate if rate else self._seconds
        span = f" in {duration_s(took)}" if took and rate else ""
        return per_second("requests/s", rate, f"{count(self.kind.completed)}{issued} completed{span}", took)

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens per second of requests that have them; None if the time range is unknown."""
        if not self._recent:
            tokens = self.kind.series[words.OUTPUT_TOKENS]
            return self._per_s(tokens.total, self.kind.output_tokens_per_s)
        tokens = self.kind.series[words.OUTPUT_TOKENS]  # a window has no sum
        return None if tokens.mean is None else tokens.window.rate * tokens.mean

    def failed(self) -> Figure:
        """Return the number of failed and expired requests of the whole run, by reason."""
        lost = self.kind.failures + self.kind.expired
        by_reason = {printable(reason): number for reason, number in self.kind.failed.items() if number and reason}
        reasons = [f"{count(number)} {reason}" for reason, number in sorted(by_reason.items(), key=_most_first)]
        reasons += [f"{count(self.kind.expired)} expired"] if self.kind.expired else []
        note = listed(reasons, _REASONS)
        return whole("failed", lost, note, "warn" if lost else "plain", self.kind.ended)

    def attainment(self) -> Figure | None:
        """Return the share of ended requests within their limits; None without limits."""
        if self.kind.good is None:
            return None
        note = _within(self.kind.slo)
        share = self._recent_attainment() if self._recent else self.kind.attainment
        if share is None:
            return Figure("attainment", NOTHING, note)
        health: Health = "good" if share >= ATTAINED else "warn" if share >= _HALF else "bad"
        return Figure("attainment", f"{share * 100:.1f} %", note, health, share, "share")

    def _recent_attainment(self) -> float | None:
        ended = sum(self.recent_rates.get(word, 0.0) for word in (words.COMPLETED, words.FAILED, words.EXPIRED))
        return self.recent_rates.get(words.GOOD, 0.0) / ended if ended > 0 else None

    def goodput(self) -> Figure | None:
        """Return the rate of requests within their limits; None without limits."""
        if self.kind.good is None:
            return None
        whole_run = self._per_s(self.kind.good, self.kind.goodput_per_s)
        return per_second("goodput/s", self.recent_rates.get(words.GOOD, 0.0) if self._recent else whole_run)

    def _per_s(self, number: float | None, of_extent: float | None) -> float | None:
        """Return the rate by the extent of the requests, or else by their time in the time range."""
        if of_extent is not None or number is None or not self._seconds:
            return of_extent
        return number / self._seconds


def _recent_rates(kind: RequestCounts, snapshot: MetricsSnapshot) -> dict[str, float]:
    """Return the rates of the kind's counters in the last seconds, by word."""
    rates: dict[str, float] = {}
    for stat in snapshot.counters:
        name, _, word = stat.name.rpartition(".")
        if name == kind.kind and _without_own(stat.labels) == kind.labels:
            rates[word] = rates.get(word, 0.0) + recent_rate(stat, snapshot)
    return rates


def _within(limits: str) -> str:
    """Describe the limits of a request: `within ttft 200 ms, tpot 50 ms`; empty if they are unknown."""
    try:
        return f"within {slo.describe(slo.parse(limits))}" if limits else ""
    except UsageError:  # another program may have written anything
        return ""


def _without_own(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in labels.items() if key not in _OWN_LABELS}


def _most_first(reason: tuple[str, float]) -> tuple[float, str]:
    return -reason[1], reason[0]


_OF_LATENCY: Final = "latency "


class AllKinds(Load):
    """All kinds of requests of a snapshot, the busiest first. There are two or more."""

    def __init__(
        self, loads: Sequence[Load], snapshot: MetricsSnapshot, *, recent: bool, seconds: float | None = None
    ) -> None:
        """Add up the counts of `loads`. The other arguments are those of each load."""
        latencies = [load.kind.series[words.LATENCY] for load in loads if words.LATENCY in load.kind.series]
        kind = _sum([load.kind for load in loads], Paces(snapshot, seconds).of(*latencies).seconds or 0.0)
        super().__init__(kind, snapshot, recent=recent, seconds=seconds)
        self._loads = loads
        added: Counter[str] = Counter()
        for load in loads:
            added.update(load.recent_rates)
        self.recent_rates = dict(added)

    def headline(self) -> Headline:
        """Return the figures of all requests, with percentiles of the busiest kind."""
        busiest = self._loads[0]
        first = busiest.headline()
        figures = [self.requests_per_s(), *self._tokens()]
        if (goodput := self.attainment()) is not None:
            figures.append(goodput)
        name = self._name_of_busiest()
        figures += [_of(name, figure) for figure in first.figures if _is_percentile(figure)]
        figures = [*failures_second([*figures, self.failed()])]
        if self._recent:
            figures = [*figures[: MOST - 1], whole("in flight", self.kind.in_flight)]
        return Headline(first.flavour, f"all {number_of(len(self._loads), 'kind')}", tuple(figures[:MOST]), True)

    def _tokens(self) -> Iterator[Figure]:
        rates = [load.tokens_per_s for load in self._loads if load.kind.has_tokens]
        if rates and self._recent:
            yield per_second("output tokens/s", sum(value or 0.0 for value in rates))
        elif rates and (rate := self.kind.rates.overall.tokens_per_s) is not None:
            yield per_second("output tokens/s", rate)

    def _name_of_busiest(self) -> str:
        """Return what tells the busiest kind from the others: `chat`, or its labels such as `route=/a`."""
        busiest = self._loads[0].kind
        if any(load.kind.kind != busiest.kind for load in self._loads):
            return instrument(busiest.kind, busiest.labels)
        apart = {
            key: text
            for key, text in busiest.labels.items()
            if any(load.kind.labels.get(key) != text for load in self._loads)
        }
        return instrument("", apart).strip("{}") or "no labels"


def _sum(kinds: Sequence[RequestCounts], seconds: float) -> RequestCounts:
    """Return the counts of all kinds together, with rates from the first issue to the last completion of any kind.

    `seconds` is the time range of the rates if these times are unknown.
    """
    failed: Counter[str] = Counter()
    for kind in kinds:
        failed.update(kind.failed)
    completed = sum(kind.completed for kind in kinds)
    tokens = [kind.series[words.OUTPUT_TOKENS].total for kind in kinds if words.OUTPUT_TOKENS in kind.series]
    timed = [kind.series[words.LATENCY].extent for kind in kinds if kind.completed and words.LATENCY in kind.series]
    extent = joined(timed)
    if extent is not None and extent.end_ns > extent.first_ns:
        seconds = (extent.end_ns - extent.first_ns) / 1e9
    rate = Rate(requests_per_s=_per_s(completed, seconds), tokens_per_s=_per_s(sum(tokens), seconds))
    limits = {kind.slo for kind in kinds}
    judged = [kind.good for kind in kinds if kind.good is not None]
    return RequestCounts(
        kind="",
        labels={},
        issued=sum(kind.issued for kind in kinds),
        completed=completed,
        failed=failed,
        expired=sum(kind.expired for kind in kinds),
        in_flight=sum(kind.in_flight for kind in kinds),
        good=sum(judged) if len(judged) == len(kinds) else None,
        slo=limits.pop() if len(limits) == 1 else "",
        rates=Rates(overall=rate),
    )


def _is_percentile(figure: Figure) -> bool:
    return figure.title.rpartition(" ")[2].lstrip("p").replace(".", "").isdigit()


def _of(name: str, figure: Figure) -> Figure:
    return replace(figure, title=f"{name} {figure.title.removeprefix(_OF_LATENCY)}")
