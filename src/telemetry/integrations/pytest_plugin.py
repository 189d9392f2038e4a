"""The plug-in for pytest behind `--telemetry`: times of tests, recorded as a run, with gates and a comparison.

The controller of xdist starts the run, and its workers are producers of it. A gate is checked in the process of its
test, with all times of this test, so nothing waits for the aggregator.
"""

from __future__ import annotations

import json
import math
import platform
import statistics
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic_ns
from typing import Annotated, Any, Final, NamedTuple
from zlib import crc32

import msgspec
import pytest
from msgspec import Meta, Struct

from telemetry import limits
from telemetry.client.run import Run, start
from telemetry.common.distribution import version
from telemetry.common.formatting import NOTHING, columns, printable, quantity, signed_percent
from telemetry.common.wording import gate_reason
from telemetry.config.load import load
from telemetry.errors import TelemetryError, UsageError
from telemetry.history import RecordedRun, open_run
from telemetry.judge.compare import ONE_SIDED, VERDICT_WORDS, Comparison, MetricResult, Options, compare
from telemetry.judge.gates.check import Rules, check_one
from telemetry.judge.gates.evidence import Evidence, GateInstrument, Loss, Quantile, Share
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.rank_bounds import quantile, share
from telemetry.judge.gates.run_evidence import RunEvidence, evidence_of
from telemetry.judge.gates.tree import Fact, Gate, nodes
from telemetry.judge.gates.value import Range
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Bounds, Report, SeriesBounds
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

SERIES: Final = "bench"
LABEL: Final = "test"
_UNIT: Final = "s"
_TICK_S: Final = 1e-12
"""Smallest difference between times. A call may take a few nanoseconds."""
_MARKER: Final = "telemetry_bench"
"""Name of the marker, and of the attribute of pytest's reports that xdist sends to its controller."""

_COMPARE: Final = "telemetry_compare"
"""Name of the option, and of its value for workers of xdist."""

_ROUND_NS: Final = 20_000
"""Least duration of a round: the clock's error of 100 ns is then below 1 %."""
_BUDGET_NS: Final = 1_000_000_000
_LEAST_ROUNDS: Final = 5
_MOST_ROUNDS: Final = 10_000

_MEDIAN: Final = "50"
_HIGH: Final = "99"
_HASH_CHARS: Final = 9


class Rounds(NamedTuple):
    """The rounds of a test."""

    value: Any
    """Value of the last call."""
    times_s: list[float]
    """Duration of a call in each round."""
    ends_ns: list[int]
    """Time at which each round ended, of the monotonic clock."""
    calls: int
    """Number of calls in a round."""


def measure(function: Callable[[], Any], rounds: int | None, warmup: int) -> Rounds:
    """Call a function `warmup` times, then in timed rounds. Each of `rounds` is one call.

    Without `rounds`, a round of a short function is several calls, and the rounds take about a second. Trace
    functions, such as those of coverage, see the warm-up only.
    """
    for _ in range(warmup):
        function()
    tracer, profiler = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        calls, least, most = 1, rounds or _LEAST_ROUNDS, rounds or _MOST_ROUNDS
        while rounds is None and _timed(function, calls)[1] < _ROUND_NS:
            calls *= 2
        value: Any = None
        times_s: list[float] = []
        ends_ns: list[int] = []
        deadline_ns = monotonic_ns() + _BUDGET_NS
        while len(ends_ns) < least or (len(ends_ns) < most and ends_ns[-1] < deadline_ns):
            value = None  # frees the value of the round before, outside of the time
            value, took_ns = _timed(function, calls)
            ends_ns.append(monotonic_ns())
            times_s.append(took_ns / calls / 1e9)
        return Rounds(value, times_s, ends_ns, calls)
    finally:
        sys.setprofile(profiler)
        sys.settrace(tracer)


def _timed(function: Callable[[], Any], calls: int) -> tuple[Any, int]:
    value = None
    began_ns = monotonic_ns()
    for _ in range(calls):
        value = function()
    return value, monotonic_ns() - began_ns


class _Times:
    """The times of a test in order."""

    least = 0.0

    def __init__(self, times_s: Sequence[float]) -> None:
        self.count = len(times_s)
        self._sorted_s = sorted(times_s)

    def at(self, rank: int) -> Range:
        return Range(self._sorted_s[rank - 1], self._sorted_s[rank - 1])

    def shown(self, percentile: str, rank: int) -> float:
        return self._sorted_s[rank - 1]


class BenchEvidence(RunEvidence):
    """The evidence of the times of some tests. Percentiles and their bounds are exact."""

    def __init__(self, times_s: Mapping[str, Sequence[float]]) -> None:
        super().__init__(RecordedRun(report_of("times", times_s), None), live=True)
        self._times = {label_of(test): _Times(times) for test, times in times_s.items()}

    def quantile(self, series: GateInstrument, percentile: str) -> Quantile | None:
        return quantile(self._times[dict(series.labels)[LABEL]], percentile, self.loss)

    def share(self, series: GateInstrument, relation: str, limit: float) -> Share | None:
        return share(self._times[dict(series.labels)[LABEL]], relation, limit)


def report_of(run_id: str, times_s: Mapping[str, Sequence[float]]) -> Report:
    """Return the result of a run that has these times of tests, and nothing else."""
    stats, bounds = [], []
    for test, times in times_s.items():
        labels, order = {LABEL: label_of(test)}, _Times(times)
        figures = {key: figure for key in (_MEDIAN, _HIGH) if (figure := quantile(order, key, Loss()))}
        stats.append(
            SeriesStat(
                name=SERIES,
                labels=labels,
                unit=_UNIT,
                count=len(times),
                total=math.fsum(times),
                min=min(times),
                max=max(times),
                mean=statistics.fmean(times),
                stddev=statistics.stdev(times) if len(times) > 1 else None,
                percentiles={key: figure.value for key, figure in figures.items()},
                exact=True,
                error_bound=0.0,
            )
        )
        ends = {
            key: Bounds(low=_finite(figure.likely.low), high=_finite(figure.likely.high))
            for key, figure in figures.items()
        }
        bounds.append(SeriesBounds(name=SERIES, labels=labels, percentiles=ends))
    snapshot = MetricsSnapshot(run_id=run_id, name=run_id, state="COMPLETE", completeness="complete", series=stats)
    return Report(snapshot=snapshot, source="status", bounds=bounds)


def label_of(test: str) -> str:
    """Return the label for a test. An id that is too long for a label ends with its checksum."""
    if len(test) <= limits.LABEL_VALUE_CHARS:
        return test
    return f"{test[: limits.LABEL_VALUE_CHARS - _HASH_CHARS]}…{crc32(test.encode()):08x}"


class Benchmarks:
    """The hooks of one process of pytest. Main thread only."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the options. Raises pytest.UsageError for a gate, a run or a file that can't be used."""
        self._option = config.option
        worker_input: dict[str, str] | None = getattr(config, "workerinput", None)
        self._is_worker = worker_input is not None
        self._compare: str = (worker_input or vars(config.option))[_COMPARE] or ""
        self._run: Run | None = None
        self._result: Report | None = None
        self._benches: dict[str, dict[str, Any]] = {}
        """Test → its measurement, as `_measurement` makes it."""
        self._key = pytest.StashKey[dict[str, Any]]()
        try:
            self._gates = [gate_of(text) for text in self._option.telemetry_gate]
            self._before = self._compared()
            if self._before is None and any(gate.uses_baseline for gate in self._gates):
                raise UsageError("a gate has a baseline", hint="give it with --telemetry-compare")
        except TelemetryError as error:
            raise pytest.UsageError(f"telemetry: {error}") from None
        baseline = None if self._before is None else self._before[1]
        self._rules = Rules(baseline=baseline, no_baseline="no baseline: give it with --telemetry-compare")
        target = self._option.telemetry_json
        if target and not Path(target).parent.is_dir():
            raise pytest.UsageError(f"telemetry: can't write {target}: {Path(target).parent} is not a folder")

    def _compared(self) -> tuple[Report, Evidence] | None:
        """Return the result and the evidence of --telemetry-compare. Raises TelemetryError."""
        if not self._compare:
            return None
        if self._compare.endswith(".json"):
            times_s = read_json(Path(self._compare))
            return report_of("file", times_s), BenchEvidence(times_s)
        config = load({}).config.run
        run = open_run(self._compare, Path(config.dir).absolute(), config.fallback_dirs)
        report = run.report()
        if not any(stat.name == SERIES for stat in report.snapshot.series):
            raise UsageError(f"{self._compare} has no times of tests", hint="give a run of `pytest --telemetry`")
        self._compare = report.directory
        return report, evidence_of(run)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give the folder of the compared run to a worker of xdist, for which `latest` is this run."""
        node.workerinput[_COMPARE] = self._compare

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Start the run before xdist starts its workers, which find it in their environment."""
        if self._option.collectonly:
            return
        try:
            self._run = start("pytest", policy="block", quiet=True)
        except TelemetryError as error:
            raise pytest.UsageError(f"telemetry: {error}") from None

    def bench(self, item: pytest.Item, function: Callable[[], Any], rounds: int | None, warmup: int) -> Any:
        """Time a function for a test, and record the times. Return the value of the last call."""
        assert self._run is not None
        if self._run.finished:
            pytest.fail("a test has finished the run of --telemetry: start runs of your own in a child process")
        measured = measure(function, rounds, warmup)
        series = self._run.series(SERIES, _UNIT, low=_TICK_S, labels={LABEL: label_of(item.nodeid)})
        for time_s, end_ns in zip(measured.times_s, measured.ends_ns, strict=True):
            series.record(time_s, end_ns)
        item.stash[self._key] = _measurement(item, measured)
        return measured.value

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Check the gates of a test that has passed so far."""
        outcome = yield
        try:
            own = [gate_of(text) for text in _marked(item)]
            times_s = item.stash[self._key]["times_s"] if self._key in item.stash else []
            if own and not times_s:
                raise UsageError("the test has a gate, but does not call telemetry_bench")
            results = self._checked(item.nodeid, times_s, own) if times_s else []
        except TelemetryError as error:
            pytest.fail(str(error), pytrace=False)
        if failed := [_in_words(result) for result in results if result.outcome == "fail"]:
            pytest.fail("\n".join(failed), pytrace=False)
        for result in results:
            if result.outcome == "inconclusive":
                item.warn(pytest.PytestWarning(f"can't tell: {_in_words(result)}"))
        return outcome

    def _checked(self, test: str, times_s: Sequence[float], own: Sequence[Gate]) -> list[GateResult]:
        evidence = BenchEvidence({test: times_s})
        gates = [gate for gate in (*self._gates, *own) if concerns(gate, label_of(test))]
        return [result for gate in gates for result in check_one(gate, evidence, self._rules)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "call" and self._key in item.stash:
            setattr(report, _MARKER, item.stash[self._key])
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (measurement := getattr(report, _MARKER, None)) is not None:
            self._benches[report.nodeid] = measurement

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Finish the run after xdist's workers, and write the file."""
        if self._run is not None:
            self._result = self._run.finish()
        if self._option.telemetry_json and not self._is_worker:
            try:
                Path(self._option.telemetry_json).write_text(json_of(self._benches))
            except OSError as error:
                raise pytest.UsageError(f"telemetry: can't write {error.filename}: {error.strerror}") from None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._run is None or self._result is None:
            return
        terminalreporter.write_sep("=", "telemetry")
        times_s = {test: measurement["times_s"] for test, measurement in self._benches.items()}
        if times_s:
            report = report_of("now", times_s)
            comparison = None
            if self._before is not None:
                options = Options(only=[f"{SERIES}:p{_MEDIAN}"])
                comparison = compare([self._before[0]], [report], options)
            for line in lines(report, comparison):
                terminalreporter.write_line(line)
            for gate in self._gates:
                if not any(concerns(gate, label_of(test)) for test in times_s):
                    terminalreporter.write_line(f"not checked: {gate.text}: no test of this run has this label")
        else:
            terminalreporter.write_line("no test called telemetry_bench")
        terminalreporter.write_line(f"{printable(self._result.headline())} · {self._run.directory}")


def gate_of(text: str) -> Gate:
    """Parse a gate on the times of a test. Raises UsageError, also for a gate that no times can decide."""
    gate = parse(text)
    facts = [node for side in (gate.left, gate.right) for node in nodes(side) if isinstance(node, Fact)]
    metrics = [term.metric for term in gate.terms]
    keys = {key for metric in metrics for key, _ in metric.labels}
    if gate.every or facts or {metric.name for metric in metrics} != {SERIES} or keys - {LABEL}:
        raise UsageError(
            f"{text!r} is not a condition on the times of a test",
            hint=f"write one such as 'p99({SERIES}) < 5ms'; `telemetry gate` checks the whole run",
        )
    sample = BenchEvidence({dict(metric.labels).get(LABEL, ""): [1.0] for metric in metrics})
    for result in check_one(gate, sample, Rules(baseline=sample)):
        if result.value is None:
            raise UsageError(f"{text!r} can't be checked: {result.reason}")
    return gate


def concerns(gate: Gate, test: str) -> bool:
    """Check whether a gate is about this test: its labels, if it has any, name the test."""
    return all(dict(term.metric.labels).get(LABEL, test) == test for term in gate.terms)


def _marked(item: pytest.Item) -> Iterator[str]:
    """Yield the gates of the markers of a test. Raises UsageError for other arguments."""
    for marker in item.iter_markers(_MARKER):
        if marker.args or set(marker.kwargs) - {"gate"}:
            raise UsageError(
                f"{_MARKER} takes `gate` only", hint=f"@pytest.mark.{_MARKER}(gate='p99(bench) < 5ms')"
            )
        gates = marker.kwargs.get("gate", [])
        yield from [gates] if isinstance(gates, str) else gates


def _in_words(result: GateResult) -> str:
    return f"{printable(result.expression)}: {gate_reason(result)}"


def lines(report: Report, comparison: Comparison | None) -> Iterator[str]:
    """Yield the lines of a table: a test, its figures, and their change if there is a comparison."""
    rows = [[LABEL, "median", "p99", "rounds"] + (["change", "verdict"] if comparison else [])]
    metrics = {} if comparison is None else {metric.labels[LABEL]: metric for metric in comparison.metrics}
    for stat in report.snapshot.series:
        test = stat.labels[LABEL]
        figures = [quantity(stat.percentiles[key], _UNIT) for key in (_MEDIAN, _HIGH)]
        rows.append([printable(test), *figures, f"{stat.count:,}", *(_change(metrics[test]) if metrics else [])])
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    for test, *cells in rows:
        padded = [" " * (width - columns(cell)) + cell for cell, width in zip(cells[:4], widths[1:5], strict=True)]
        yield "  ".join([test + " " * (widths[0] - columns(test)), *padded, *cells[4:]]).rstrip()
    if comparison is not None:
        yield "one run a side does not show the noise between runs: `telemetry ab` does"


def _change(metric: MetricResult) -> tuple[str, str]:
    if metric.reason == ONE_SIDED[1]:
        return NOTHING, "new"
    reason = f": {metric.reason}" if metric.verdict == "cannot_tell" and metric.reason else ""
    return signed_percent(metric.difference), f"{VERDICT_WORDS[metric.verdict]}{reason}"


# --- the JSON of pytest-benchmark --------------------------------------------------------------------


class _Stats(Struct):
    data: list[Annotated[float, Meta(ge=0)]] = []


class _Benchmark(Struct):
    fullname: str
    stats: _Stats


class _Document(Struct):
    benchmarks: list[_Benchmark]


def read_json(path: Path) -> dict[str, list[float]]:
    """Return the times of each test from a JSON file of pytest-benchmark. Raises UsageError."""
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is not a JSON file of pytest-benchmark: {error}") from None
    times_s = {benchmark.fullname: benchmark.stats.data for benchmark in document.benchmarks}
    if not all(times_s.values()) or not times_s:
        raise UsageError(f"{path} does not have the times of all rounds", hint="write it with --benchmark-json")
    return times_s


def json_of(benches: Mapping[str, Mapping[str, Any]]) -> str:
    """Return measurements as a JSON document of pytest-benchmark."""
    benchmarks = [
        {
            "group": None,
            "name": measurement["name"],
            "fullname": test,
            "params": measurement["params"],
            "param": measurement["param"],
            "extra_info": {},
            "options": {"disable_gc": False, "timer": "monotonic"},
            "stats": _stats(measurement["times_s"]) | {"iterations": measurement["calls"]},
        }
        for test, measurement in benches.items()
    ]
    document = {
        "machine_info": {
            "node": platform.node(),
            "machine": platform.machine(),
            "python_implementation": platform.python_implementation(),
            "python_version": platform.python_version(),
            "release": platform.release(),
            "system": platform.system(),
        },
        "commit_info": {},
        "benchmarks": benchmarks,
        "datetime": datetime.now(UTC).isoformat(),
        "version": f"telemetry {version()}",
    }
    return json.dumps(document, indent=4) + "\n"


def _stats(times_s: Sequence[float]) -> dict[str, Any]:
    mean = statistics.fmean(times_s)
    spread = statistics.stdev(times_s) if len(times_s) > 1 else 0.0
    first, median, third = (
        statistics.quantiles(times_s, n=4, method="inclusive") if len(times_s) > 1 else [times_s[0]] * 3
    )
    reach = 1.5 * (third - first)
    inside = [time_s for time_s in times_s if first - reach <= time_s <= third + reach]
    beyond = sum(abs(time_s - mean) > spread for time_s in times_s)
    outside = len(times_s) - len(inside)
    return {
        "min": min(times_s),
        "max": max(times_s),
        "mean": mean,
        "stddev": spread,
        "rounds": len(times_s),
        "median": median,
        "iqr": third - first,
        "q1": first,
        "q3": third,
        "iqr_outliers": outside,
        "stddev_outliers": beyond,
        "outliers": f"{beyond};{outside}",
        "ld15iqr": min(inside),
        "hd15iqr": max(inside),
        "ops": 1 / mean if mean else 0.0,
        "total": math.fsum(times_s),
        "data": list(times_s),
    }


def _measurement(item: pytest.Item, measured: Rounds) -> dict[str, Any]:
    """Return the times of a test with its name and parameters, in types that xdist can send."""
    callspec = getattr(item, "callspec", None)
    params = None if callspec is None else {name: _plain(value) for name, value in callspec.params.items()}
    return {
        "name": item.name,
        "param": None if callspec is None else callspec.id,
        "params": params,
        "times_s": measured.times_s,
        "calls": measured.calls,
    }


def _plain(value: object) -> str | float | bool | None:
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
