"""Figures of the requests of all kinds together.

Counts and rates add up. Percentiles do not: they are those of the busiest kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from telemetry.common.formatting import number_of
from telemetry.common.headline_choice import MOST
from telemetry.common.wording import instrument
from telemetry.history.headlines.loads import Load
from telemetry.history.headlines.model import Figure, Headline, failures_second, per_second, whole
from telemetry.history.rates import Paces
from telemetry.history.rates import per_second as _per_s
from telemetry.history.request_model import RequestCounts, joined
from telemetry.wire import requests as words
from telemetry.wire.report import Rate, Rates
from telemetry.wire.snapshot import MetricsSnapshot

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
