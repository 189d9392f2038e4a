"""Requests of one kind, in one tracking window or in total, with all figures that follow from their counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from telemetry.history.request_model.merging import Number, quotient, sum_of
from telemetry.wire import requests as words
from telemetry.wire.report import Rates
from telemetry.wire.snapshot import Extent, SeriesStat

_FEW: Final = 0.01
"""Share of requests, or of their time, that changes no rate even if it lies outside the known span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """Requests of one kind, in one tracking window or in total."""

    kind: str
    labels: Mapping[str, str]
    """Labels of the kind, without window, finish reason, reason and turn."""
    window: str | None = None
    """Tracking window. None: the total. Empty: requests outside any window."""
    issued: Number = 0
    completed: Number = 0
    failed: Mapping[str, Number] = field(default_factory=dict)
    """Failed requests by reason."""
    expired: Number = 0
    in_flight: Number = 0
    """Issued requests without an outcome yet. Below 0 if issues are not counted, as in a time range of a run."""
    after_end: Number = 0
    """Number of calls for requests that had ended, or for unknown requests."""
    out_of_order: Number = 0
    """Number of durations left out because their end lies before their beginning."""
    finishes: Mapping[str, Number] = field(default_factory=dict)
    """Completed requests by finish reason, without those that have no finish reason."""
    series: Mapping[str, SeriesStat] = field(default_factory=dict)
    """Series by word of `telemetry.wire.requests`. `together` merges those of several windows."""
    turns: Mapping[str, Mapping[str, SeriesStat]] = field(default_factory=dict)
    """Series by turn of the conversation, in order of turns, then by word."""
    rates: Rates = field(default_factory=Rates)
    slo: str = ""
    """Limits for a request, such as `ttft:200ms tpot:50ms`; empty without limits, or if they are unknown."""
    good: Number | None = None
    """Number of completed requests within all their limits. None: the requests have no limits."""
    met: Mapping[str, Number] = field(default_factory=dict)
    """Number of completed requests within one limit, by its key."""
    windows: Sequence[RequestCounts] = ()
    """List of the tracking windows, and of the requests outside any window if there are any. Only in the total."""

    @property
    def failures(self) -> Number:
        """Number of failed requests, for any reason."""
        return sum_of(self.failed.values())

    @property
    def ended(self) -> Number:
        """Number of requests with an outcome. Attainment is the share of these that are good."""
        return sum_of((self.completed, self.failures, self.expired))

    @property
    def attainment(self) -> float | None:
        """Share of the ended requests that are good; None without limits, or if no request has ended."""
        return self._share_of_ended(self.good)

    def attainment_of(self, key: str) -> float | None:
        """Return the share of the ended requests that are within one limit; None without that limit."""
        return self._share_of_ended(self.met.get(key))

    @property
    def failed_share(self) -> float | None:
        """Share of the ended requests that failed or expired; None if no request has ended."""
        return self._share_of_ended(sum_of((self.failures, self.expired)))

    def _share_of_ended(self, number: Number | None) -> float | None:
        return quotient(number, self.ended) if number is not None and self.ended > 0 else None

    @property
    def span_s(self) -> float | None:
        """Seconds from the first issue to the last end of completed requests; None if unknown or without length."""
        extent = self._extent
        seconds = None if extent is None else quotient(extent.end_ns - extent.first_ns, 1e9)
        return seconds if seconds is not None and seconds > 0.0 else None

    @property
    def goodput_per_s(self) -> float | None:
        """Good requests per second of the span."""
        return self._per_s(self.good)

    @property
    def input_tokens_per_s(self) -> float | None:
        """Input tokens of completed requests per second of the span; None if they are unknown."""
        return self._per_s(self._total(words.INPUT_TOKENS))

    @property
    def output_tokens_per_s(self) -> float | None:
        """Output tokens of completed requests per second of the span; None if they are unknown."""
        return self._per_s(self._total(words.OUTPUT_TOKENS))

    @property
    def total_tokens_per_s(self) -> float | None:
        """Input and output tokens of completed requests per second of the span; None if one is unknown."""
        input_tokens, other = self._total(words.INPUT_TOKENS), self._total(words.OUTPUT_TOKENS)
        return None if input_tokens is None or other is None else self._per_s(sum_of((input_tokens, other)))

    @property
    def offered_per_s(self) -> float | None:
        """Issued requests per second, from the first issue to the last one.

        Only the times of completed requests are known, so it is None if more than a few requests did not complete.
        """
        if self.issued - self.completed > _FEW * self.completed:
            return None
        extent = self._extent
        if extent is None or extent.last_ns <= extent.first_ns or self.issued < 2:
            return None
        seconds = quotient(extent.last_ns - extent.first_ns, 1e9)
        return None if seconds is None else quotient(self.issued - 1, seconds)

    @property
    def concurrency_mean(self) -> float | None:
        """Mean number of requests in flight: durations of completed and failed ones, divided by the span.

        The span is that of completed requests, so it is None if more than a few of these durations may lie outside.
        """
        took, failed_took = self._total(words.LATENCY) or 0, self._total(words.FAILED_LATENCY) or 0
        if failed_took > _FEW * took or self.expired > _FEW * self.completed:
            return None
        busy = self._per_s(sum_of((took, failed_took)))
        return None if busy is None else busy / 1e9

    @property
    def has_tokens(self) -> bool:
        """True if the answers are made of tokens. An answer of one piece counts as one token, whatever it is."""
        timed = (self.series.get(word) for word in (words.ITL, words.TPOT))
        tokens = self.series.get(words.OUTPUT_TOKENS)
        several = tokens is not None and tokens.mean is not None and tokens.mean > 1
        return several or any(stat is not None and stat.count for stat in timed)

    @property
    def tokens_per_chunk(self) -> float | None:
        """Mean number of output tokens in a chunk, the first one included.

        None if some tokens are unknown, or if there are no later chunks: they may just not be reported.
        """
        tokens, first, later = (self.series.get(word) for word in (words.OUTPUT_TOKENS, words.TTFT, words.ITL))
        if tokens is None or first is None or later is None:
            return None
        if not first.count or not later.count or tokens.count != first.count:
            return None
        return quotient(tokens.total, first.count + later.count)

    @property
    def _extent(self) -> Extent | None:
        latency = self.series.get(words.LATENCY)
        return latency.extent if latency is not None else None

    def _total(self, word: str) -> Number | None:
        stat = self.series.get(word)
        return stat.total if stat is not None and stat.count > 0 else None

    def _per_s(self, number: Number | None) -> float | None:
        span_s = self.span_s
        return None if number is None or span_s is None else quotient(number, span_s)


_LATE_AT: Final = ("99", "50")
"""Percentiles, the one that a warning names first."""
_CLEARLY: Final = (5, 4)
"""Ratio to the raw percentile. Below it a load generator was a little late, as all are.

The lateness must explain the ratio: if only some requests were planned, these may be slower by themselves.
"""


def late_at(of: RequestCounts) -> tuple[str, ...]:
    """Return the percentiles at which latency from the planned time is clearly worse than from the issue."""
    raw, corrected, delay = (of.series.get(word) for word in (words.LATENCY, words.CORRECTED, words.QUEUE_DELAY))
    if raw is None or corrected is None or delay is None:
        return ()
    more, whole = _CLEARLY
    percentiles = []
    for key in _LATE_AT:
        before, after, late = (stat.percentiles.get(key) for stat in (raw, corrected, delay))
        if before is None or after is None or late is None:
            continue
        if whole * after > more * before and more * late > (more - whole) * after:
            percentiles.append(key)
    return tuple(percentiles)
