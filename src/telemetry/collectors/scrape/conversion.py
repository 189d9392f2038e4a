"""Samples of pages as instruments of a run.

Gauges stay gauges. A counter becomes a counter of its increase during the run, and a gauge of its rate.
A histogram becomes gauges of its rate, mean and percentiles in the interval between two pages, a summary gauges of
its rate and mean. Labels of an information metric become parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.collectors.scrape.selection import MetricSelection
from telemetry.collectors.scrape.text import Page, PageSeries
from telemetry.errors import InstrumentError

if TYPE_CHECKING:
    from telemetry.client.recording import Recording

QUANTILES: Final = {"p50": 0.50, "p99": 0.99}
_UNITS: Final = {
    "seconds": "s",
    "milliseconds": "ms",
    "bytes": "B",
    "tokens": "tokens",
    "requests": "requests",
    "celsius": "°C",
    "joules": "J",
    "watts": "W",
    "volts": "V",
    "hertz": "Hz",
    "percent": "%",
}
"""Unit by the last word of a name, as Prometheus recommends it."""
_DISTRIBUTIONS: Final = ("histogram", "summary")
_PARTS: Final = ("bucket", "sum", "count", "created", "gsum", "gcount")
_UNRECORDED: Final = ("stateset", "gaugehistogram")
"""Types of OpenMetrics that are not recorded."""
_ACTIONS_LEAST: Final = 1_000

Action = Callable[[float], None]
Labels = tuple[tuple[str, str], ...]
Place = tuple[str, Labels]
"""Name and labels of a series, with those of its server."""


class ScrapeBudget:
    """The gauges and the number of parameters that one collector may still make."""

    def __init__(self, most: int) -> None:
        self.params = 0
        self._left = most
        self._series: set[Place] = set()

    def admits(self, series_key: Place, gauges: int) -> bool:
        """Return whether a series with this number of gauges may be made: there is room, or it was made before."""
        if series_key not in self._series:
            if gauges > self._left:
                return False
            self._left -= gauges
            self._series.add(series_key)
        return True


class Conversion:
    """The instruments for the pages of one server, and the values of the page before."""

    def __init__(
        self,
        run: Recording,
        selection: MetricSelection,
        budget: ScrapeBudget,
        *,
        prefix: str = "",
        labels: Mapping[str, str] | None = None,
        without: frozenset[str] = frozenset(),
    ) -> None:
        """Create it.

        `prefix` stands in front of names. `labels` are added to those of each series, those in `without` left out.
        """
        self.left_out = 0
        """Number of chosen series on the newest page that are not recorded, because there are too many."""
        self.unusable = ""
        """The newest reason why a series can't be recorded, such as too many labels."""
        self._run = run
        self._selection = selection
        self._budget = budget
        self._prefix = prefix
        self._labels = dict(labels or {})
        self._without = without
        self._actions: dict[PageSeries, Action] = {}
        self._distributions: dict[Place, _Distribution] = {}
        self._owners: dict[Place, Labels] = {}
        self._infos: dict[str, list[PageSeries]] = {}
        self._now_s = nan

    def take(self, page: Page, at_s: float) -> None:
        """Record a page that was fetched at this time of a monotonic clock, in seconds."""
        elapsed_s, self._now_s = at_s - self._now_s, at_s
        self.left_out = 0
        actions = self._actions
        for series, value, _ in page.samples:
            action = actions.get(series)
            if action is None:
                action = actions[series] = self._action(series, page)
            action(value)
        for distribution in self._distributions.values():
            distribution.record(elapsed_s)
        if self._infos:
            self._tell_infos()
        if len(actions) > max(_ACTIONS_LEAST, 2 * len(page.samples)):
            present = {sample.series for sample in page.samples}
            self._actions = {series: action for series, action in actions.items() if series in present}

    # --- one series ------------------------------------------------------------------------------

    def _action(self, series: PageSeries, page: Page) -> Action:
        """Return the work for each value of a new series."""
        family, kind, part = meaning(series.name, page.types)
        if kind in _UNRECORDED or part == "created" or not self._selection.wants(family, series.name):
            return _ignore
        if kind == "info":
            if self._selection.is_explicit:
                self._infos.setdefault(series.name, []).append(series)
            return _ignore
        try:
            if kind in _DISTRIBUTIONS and part:
                return self._part_of_distribution(family, kind, part, series, page)
            if not self._admits(series.name, series.labels):
                return self._leave_out
            return self._counter(series, page) if kind == "counter" else self._gauge(series, page)
        except InstrumentError as error:
            self.unusable = error.message
            return _ignore

    def _leave_out(self, value: float) -> None:
        self.left_out += 1

    def _gauge(self, series: PageSeries, page: Page) -> Action:
        put = self._made_gauge(series.name, series.labels, _unit(series.name, page))

        def action(value: float) -> None:
            if isfinite(value):
                put(value)

        return action

    def _counter(self, series: PageSeries, page: Page) -> Action:
        unit = _unit(series.name.removesuffix("_total"), page)
        add = self._run.counter(self._named(series.name), unit, labels=self._merged(series.labels)).add
        put_rate = self._made_gauge(f"{series.name}.rate", series.labels, f"{unit or '1'}/s")
        last = last_s = nan

        def action(value: float) -> None:
            nonlocal last, last_s
            if not isfinite(value):
                return
            if self._now_s > last_s:  # not true of the first value
                grown = _growth(last, value)
                if grown:
                    add(grown)
                put_rate(grown / (self._now_s - last_s))
            last, last_s = value, self._now_s

        return action

    def _part_of_distribution(self, family: str, kind: str, part: str, series: PageSeries, page: Page) -> Action:
        labels = {key: value for key, value in series.labels.items() if key != "le"}
        if not self._admits(family, labels, len(_gauges_of(kind))):
            return self._leave_out if part == "count" else _ignore
        series_key = self._place(family, labels)
        distribution = self._distributions.get(series_key)
        if distribution is None:
            distribution = self._distribution(family, kind, labels, _unit(family, page))
            self._distributions[series_key] = distribution
        if part == "count":
            return distribution.set_count
        return distribution.set_sum if part == "sum" else distribution.bucket(series.labels.get("le", ""))

    def _distribution(self, family: str, kind: str, labels: Mapping[str, str], unit: str) -> _Distribution:
        units = {"rate": "1/s"}
        return _Distribution(
            {name: self._made_gauge(f"{family}.{name}", labels, units.get(name, unit)) for name in _gauges_of(kind)}
        )

    def _made_gauge(self, name: str, labels: Mapping[str, str], unit: str) -> Action:
        return self._run.gauge(self._named(name), unit, labels=self._merged(labels)).set

    def _named(self, name: str) -> str:
        """Return the name with the prefix, unless the name begins with the prefix itself."""
        prefix = self._prefix
        if not prefix or (name.startswith(prefix) and not name[len(prefix) : len(prefix) + 1].isalnum()):
            return name
        return f"{prefix}.{name}"

    def _admits(self, name: str, labels: Mapping[str, str], gauges: int = 1) -> bool:
        """Return whether there is room for a series. Raises InstrumentError if another one looks the same."""
        series_key, own = self._place(name, labels), tuple(sorted(labels.items()))
        if not self._budget.admits(series_key, gauges):
            return False
        if self._owners.setdefault(series_key, own) != own:
            raise InstrumentError(f"{name!r} has several series that differ only in labels of without=")
        return True

    def _place(self, name: str, labels: Mapping[str, str]) -> Place:
        return name, tuple(sorted(self._merged(labels).items()))

    def _merged(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels with those of the server. An empty label means the same as none."""
        every = {**self._labels, **labels}
        return {key: value for key, value in every.items() if value and key not in self._without}

    def _tell_infos(self) -> None:
        """Record labels of information metrics as parameters. A metric with several series is left out."""
        infos, self._infos = self._infos, {}
        for name, series in infos.items():
            labels = {key: value for key, value in series[0].labels.items() if value}
            if len(series) > 1 or self._labels or self._budget.params + len(labels) > limits.SCRAPE_PARAMS:
                continue
            self._budget.params += len(labels)
            self._run.params({f"{self._named(name)}.{key}": value for key, value in labels.items()})


class _Distribution:
    """A histogram or a summary with its labels: counts now, and those of the page before."""

    def __init__(self, gauges: Mapping[str, Callable[[float], None]]) -> None:
        self._gauges = gauges
        self._now: dict[float, float] = {}
        self._before: dict[float, float] = {}
        self._count = nan
        self._sum = nan
        self._count_before = nan
        self._sum_before = nan

    def set_count(self, value: float) -> None:
        self._count = value

    def set_sum(self, value: float) -> None:
        self._sum = value

    def bucket(self, text: str) -> Action:
        """Return the call that sets the number of values up to a bound."""
        try:
            bound = float(text)
        except ValueError:
            return _ignore
        if isnan(bound) or len(self._now) >= limits.SCRAPE_BUCKETS:
            return _ignore
        self._now = dict(sorted({**self._now, bound: 0.0}.items()))

        def action(value: float) -> None:
            self._now[bound] = value

        return action

    def record(self, elapsed_s: float) -> None:
        """Record the interval since the last page, if both pages have the distribution."""
        count, total = self._count, self._sum
        count_before, sum_before, before = self._count_before, self._sum_before, self._before
        self._count_before, self._sum_before, self._before = count, total, dict(self._now)
        self._count = self._sum = nan
        if count < count_before:  # the server began anew
            count_before, sum_before, before = 0.0, 0.0, {}
        grown = count - count_before
        if not isfinite(grown) or not elapsed_s > 0:
            return
        gauges = self._gauges
        gauges["rate"](grown / elapsed_s)
        if grown <= 0:
            return
        mean = (total - sum_before) / grown
        if isfinite(mean):
            gauges["mean"](mean)
        if self._now and "p50" in gauges:
            counts = {bound: number - before.get(bound, 0.0) for bound, number in self._before.items()}
            for key, share in QUANTILES.items():
                value = quantile(counts, share)
                if isfinite(value):
                    gauges[key](value)


def quantile(counts: Mapping[float, float], share: float) -> float:
    """Return an estimate of a quantile from the numbers of values up to each bound, in rising order of the bounds.

    Values are taken to be spread evenly between two bounds. The result is NaN without values, and the largest
    finite bound if the quantile is above it.
    """
    total = max(counts.values(), default=0.0)
    if not total > 0:
        return nan
    wanted = share * total
    low, below = 0.0, 0.0
    for bound, number in counts.items():
        if number >= wanted and number > below:
            if bound == inf:
                return low if below or len(counts) > 1 else nan
            start = min(low, bound) if below or bound > 0 else bound
            return start + (bound - start) * (wanted - below) / (number - below)
        if bound != inf:
            low = bound
        below = max(below, number)
    return low


# --- helpers -----------------------------------------------------------------------------------------


def _ignore(value: float) -> None:
    """Do nothing with a series that is not wanted."""


def _gauges_of(kind: str) -> tuple[str, ...]:
    """Return the ends of the names of the gauges for a histogram or a summary."""
    return ("mean", *QUANTILES, "rate") if kind == "histogram" else ("mean", "rate")


def _growth(before: float, now: float) -> float:
    """Return the increase of a counter. A smaller value means that the server began anew at zero."""
    return now - before if now >= before else max(now, 0.0)


def meaning(name: str, types: Mapping[str, str]) -> tuple[str, str, str]:
    """Return family, type and part of a series: `x_bucket` is part `bucket` of the histogram `x`.

    The type is `counter`, `gauge`, `histogram`, `summary`, `info`, or another word of the page.
    """
    family, _, part = name.rpartition("_")
    kind = types.get(name, "")
    if kind in ("", "gauge"):
        if part == "info":
            return name, "info", part
        if part == "created" and _has_created(family, types):
            return name, "gauge", part
    if kind:
        return name, kind, ""
    kind = types.get(family, "")
    if part in _PARTS and kind in (*_DISTRIBUTIONS, "gaugehistogram"):
        return family, kind, part
    return name, (kind or "counter") if part == "total" else "", ""


def _has_created(name: str, types: Mapping[str, str]) -> bool:
    """Return whether a page has a counter or distribution of this name."""
    return types.get(name, types.get(f"{name}_total")) in ("counter", *_DISTRIBUTIONS)


def _unit(name: str, page: Page) -> str:
    """Return the unit that the page or the name states, or an empty string."""
    word = page.units.get(name) or name.rpartition("_")[2]
    return _UNITS.get(word, "")
