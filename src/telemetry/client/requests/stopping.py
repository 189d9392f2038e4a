"""Percentiles of requests that are known by now, for a load generator that stops once they are.

The aggregator has the figures. It is asked at most once a second.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from telemetry.errors import TelemetryError, UsageError
from telemetry.transport.client import ControlClient
from telemetry.wire import requests as words
from telemetry.wire.cells import edge
from telemetry.wire.control import GetStatus, Status
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

if TYPE_CHECKING:
    from telemetry.config.schema import EarlyStoppingConfig

_ASK_AGAIN_S: Final = 1.0
_PATIENCE_S: Final = 1.0
_PERCENTILE: Final = re.compile(r"\d{1,2}(\.\d{1,7})?", re.ASCII)
_CONDITION: Final = re.compile(
    r"p(?P<percentile>[\d.]+)(?: of (?P<of>[a-z_]+))? known(?: within (?P<within>\d+(?:\.\d+)?) ?%)?"
    r"(?: at (?P<confidence>\d+(?:\.\d+)?) ?% confidence)?(?: tolerating (?P<tolerance>\d+(?:\.\d+)?) ?%)?",
    re.ASCII,
)
_SERIES: Final = (
    words.LATENCY,
    words.CORRECTED,
    words.QUEUE_DELAY,
    words.TTFT,
    words.ITL,
    words.TPOT,
    words.INPUT_TOKENS,
    words.OUTPUT_TOKENS,
    words.FAILED_LATENCY,
)


@dataclass(frozen=True, slots=True)
class PercentileStatus:
    """Knowledge of a percentile after a number of samples. Values are in the unit of their series."""

    percentile: str
    count: int
    """Number of samples so far."""
    needed: int
    """Minimum number of samples to bound the percentile with the requested confidence."""
    missing: int
    known: bool
    value: float | None
    """Percentile of the samples so far."""
    bound: float | None
    """Upper bound of the true percentile, with the requested confidence."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition. The percentile lies between 0 and 100, exclusive."""

    percentile: str = "99"
    of: str = words.LATENCY
    confidence: float | None = None
    """Confidence of the bound. None: the confidence of the settings."""
    within: float | None = None
    """Largest share of the value by which the bound may exceed it. A larger excess means not known."""
    tolerance: float | None = None
    """Largest difference between the percentile and the share below the bound.

    None: the tolerance of the settings.
    """

    @property
    def ratio(self) -> tuple[int, int]:
        return (Fraction(self.percentile) / 100).as_integer_ratio()


def condition(
    percentile: object,
    of: str,
    confidence: float | None = None,
    within: float | None = None,
    tolerance: float | None = None,
) -> Condition:
    """Check a condition. Raise UsageError if it is invalid.

    A percentile may start with `p`. One below 1 must, because a bare 0.99 usually means a share.
    """
    text = str(percentile)
    number = text.removeprefix("p")
    if not _PERCENTILE.fullmatch(number) or not Fraction(number):
        raise UsageError(
            f"{text!r} is not a percentile", hint='give a number above 0 and below 100, such as "p99.9"'
        )
    if number == text and Fraction(number) < 1:
        meant = f"{float(number) * 100:.10g}"
        raise UsageError(
            f"{text} is a share, not a percentile",
            hint=f'write {meant} or "p{meant}"; for a percentile below 1 % write "p{text}"',
        )
    of = words.canonical(of)
    if of not in _SERIES:
        raise UsageError(f"requests have no series {of!r}", hint=f"use one of {', '.join(_SERIES)}")
    if confidence is not None and not _is_share(confidence):
        raise UsageError(
            f"confidence={confidence!r} is out of range", hint="give a number between 0 and 1, such as 0.99"
        )
    if within is not None and not _is_share(within):
        raise UsageError(
            f"within={within!r} is out of range", hint="give a number between 0 and 1, such as 0.05 for 5 %"
        )
    if tolerance is not None and not (tolerance == 0 or _is_share(tolerance)):
        raise UsageError(f"tolerance={tolerance!r} is out of range", hint="give 0 or more, such as 0.001 for 0.1 %")
    if tolerance is not None and float(tolerance) >= float(Fraction(number) / 100):
        raise UsageError(
            f"a tolerance of {tolerance!r} is too large for p{number}", hint="give a smaller one, such as 0.001"
        )
    shares = (None if share is None else float(share) for share in (confidence, within, tolerance))
    return Condition(number, of, *shares)


def _is_share(value: float) -> bool:
    """Check that a value is a number between 0 and 1, exclusive."""
    try:
        return bool(0.0 < value < 1.0)
    except (TypeError, ValueError):
        return False


def is_condition(text: str) -> bool:
    """Check that text has the form of a stop condition."""
    return _CONDITION.fullmatch(" ".join(text.split())) is not None


def parse(stop_when: str) -> Condition:
    """Parse a stop condition.

    Examples: "p99 known", "p99.9 of ttft known", "p99 known within 5% at 95% confidence tolerating 0.1%". Raises
    UsageError.
    """
    match = _CONDITION.fullmatch(" ".join(stop_when.split())) if isinstance(stop_when, str) else None
    if match is None:
        raise UsageError(
            f"{stop_when!r} is not a condition to stop",
            hint='write a condition such as "p99 known" or "p99 of ttft known within 5%"',
        )
    shares = (match[name] for name in ("confidence", "within", "tolerance"))
    return condition(
        f"p{match['percentile']}",
        match["of"] or words.LATENCY,
        *(None if share is None else float(Fraction(share) / 100) for share in shares),
    )


class StatusQuery:
    """A query for the aggregator's figures. They are at most a second old, or None. Thread-safe."""

    def __init__(self, endpoint: Callable[[], str]) -> None:
        self._endpoint = endpoint
        self.forget()

    def forget(self) -> None:
        """Drop the figures of another run. Also used in a forked child, where the lock may have been held."""
        self._asking = threading.Lock()
        self._ask_at = 0.0
        self._newest: MetricsSnapshot | None = None
        self._rule: EarlyStoppingConfig | None = None

    @property
    def rule(self) -> EarlyStoppingConfig:
        """Confidence and tolerance of the settings, read once per run. Raises ConfigError."""
        if self._rule is None:
            from telemetry.config import load

            self._rule = load({}).config.early_stopping
        return self._rule

    def ask(self) -> MetricsSnapshot | None:
        """Return the newest figures.

        Block for at most a second, unless they are fresh or another thread is asking.
        """
        asking = self._asking
        if time.monotonic() < self._ask_at or not asking.acquire(blocking=False):
            return self._newest
        try:
            answer = self._answer()
            if asking is not self._asking:  # another run has begun: this answer is from the run before
                return None
            self._newest, self._ask_at = answer, time.monotonic() + _ASK_AGAIN_S
            return answer
        finally:
            asking.release()

    def _answer(self) -> MetricsSnapshot | None:
        endpoint = self._endpoint()
        if not endpoint:
            return None
        try:
            with ControlClient(endpoint) as client:
                answer = client.request(GetStatus(), _PATIENCE_S)
        except TelemetryError:  # no figures: the caller continues and asks again
            return None
        return answer.snapshot if isinstance(answer, Status) else None


def judge(
    snapshot: MetricsSnapshot | None,
    kind: str,
    labels: Mapping[str, str],
    asked: Condition,
    *,
    confidence: float = 0.99,
    tolerance: float = 0.0,
) -> PercentileStatus:
    """Evaluate a condition for the requests with exactly these labels.

    `confidence` and `tolerance` apply if the condition has none. The default tolerance applies only to percentiles
    from the median up.
    """
    from telemetry.statistics.early_stopping import bound_rank, samples_needed

    name = words.name_of(kind, asked.of)
    series: Sequence[SeriesStat] = snapshot.series if snapshot is not None else ()
    stat = next((stat for stat in series if stat.name == name and stat.labels == labels), SeriesStat(name=name))
    numerator, denominator = asked.ratio
    if asked.confidence is not None:
        confidence = asked.confidence
    if asked.tolerance is not None:
        tolerance = asked.tolerance
    elif 2 * numerator < denominator:
        tolerance = 0.0
    needed = samples_needed(asked.ratio, confidence, tolerance)
    missing = max(0, needed - stat.count)
    if not stat.count:
        return PercentileStatus(asked.percentile, 0, needed, missing, False, None, None)
    value = value_at(stat, -(-numerator * stat.count // denominator))
    rank = bound_rank(asked.ratio, stat.count, confidence, tolerance)
    bound = None if rank is None else value_at(stat, rank)
    is_known = bound is not None and (asked.within is None or bound - value <= asked.within * value)
    return PercentileStatus(asked.percentile, stat.count, needed, missing, is_known, value, bound)


def value_at(stat: SeriesStat, rank: int) -> float:
    """Estimate the value at a rank (from 1) from the percentiles and display histogram of a snapshot.

    The result is exact at the rank of a percentile. Otherwise it is interpolated in the histogram, with values
    taken as even within a cell, and lies between the neighbouring percentiles.
    """
    low, high = float(stat.min or 0), float(stat.max or 0)
    for percentile, value in stat.percentiles.items():
        of_percentile = -(-Fraction(percentile) * stat.count // 100)
        if of_percentile <= rank:
            low = max(low, value)
        if of_percentile >= rank:
            high = min(high, value)
    before = 0
    for cell, count in stat.histogram:
        if before + count >= rank:
            lower, upper = edge(cell) * stat.cell_unit, edge(cell + 1) * stat.cell_unit
            return min(max(low, lower + (upper - lower) * (rank - before) / count), high)
        before += count
    return high
