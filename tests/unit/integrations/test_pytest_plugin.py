"""Tests of the plug-in for pytest that need no child process: rounds, gates, and the JSON of pytest-benchmark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from telemetry import limits
from telemetry.errors import UsageError
from telemetry.integrations import pytest_plugin
from telemetry.integrations.pytest_plugin import concerns, gate_of, json_of, label_of, measure, read_json
from telemetry.judge.gates.tree import Gate

STATS = {
    *("min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "iqr_outliers", "stddev_outliers"),
    *("outliers", "ld15iqr", "hd15iqr", "ops", "total", "data", "iterations"),
}
"""Figures of a benchmark in a file of pytest-benchmark."""


class Clock:
    """A clock that only the timed function moves."""

    def __init__(self, call_ns: int) -> None:
        self.now_ns = 0
        self.calls = 0
        self._call_ns = call_ns

    def function(self) -> int:
        self.now_ns += self._call_ns
        self.calls += 1
        return self.calls


@pytest.mark.parametrize(
    ("call_ns", "calls", "rounds"), [(5_000, 4, 10_000), (1_000_000, 1, 1_000), (2_000_000_000, 1, 5)]
)
def test_rounds_take_about_a_second(monkeypatch: pytest.MonkeyPatch, call_ns: int, calls: int, rounds: int) -> None:
    """Short functions are called several times in a round, and slow functions have five rounds."""
    clock = Clock(call_ns)
    monkeypatch.setattr(pytest_plugin, "monotonic_ns", lambda: clock.now_ns)
    measured = measure(clock.function, None, warmup=1)
    assert (measured.calls, len(measured.times_s)) == (calls, rounds)
    assert measured.times_s == pytest.approx([call_ns / 1e9] * rounds)
    assert measured.value == clock.calls
    assert measured.ends_ns == sorted(measured.ends_ns)


def test_given_rounds_are_single_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function with side effects is called as often as the test says."""
    clock = Clock(1)
    monkeypatch.setattr(pytest_plugin, "monotonic_ns", lambda: clock.now_ns)
    measured = measure(clock.function, 7, warmup=2)
    assert (clock.calls, measured.calls, measured.times_s) == (9, 1, [1e-9] * 7)


def test_only_the_warm_up_is_traced() -> None:
    """Coverage sees the function, and its cost is not in the times."""
    before, traced = sys.gettrace(), []

    def tracer(*_: Any) -> None:
        traced.append(sys.gettrace())

    seen = []
    sys.settrace(tracer)
    try:
        measure(lambda: seen.append(sys.gettrace()), 2, warmup=1)
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert seen == [tracer, None, None]
    assert after is tracer


def test_a_function_that_raises_leaves_the_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coverage of the other tests goes on."""
    before = sys.gettrace()

    def tracer(*_: Any) -> None:
        return None

    sys.settrace(tracer)
    try:
        with pytest.raises(ZeroDivisionError):
            measure(lambda: 1 / 0, 1, warmup=0)
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is tracer


@pytest.mark.parametrize(
    "text",
    [
        "p99(bench) < 5ms",
        "p50(bench) <= baseline * 1.05",
        "p99(bench) / p50(bench) < 4",
        "share(bench < 5ms) >= 99%",
        "mean(bench) < 1s",
        "max(bench{test=a.py::test_a}) < 1s",
    ],
)
def test_gates_on_times(text: str) -> None:
    """Figures of the times of a test, and the baseline."""
    assert isinstance(gate_of(text), Gate)


@pytest.mark.parametrize(
    "text",
    [
        "p99(benhc) < 5ms",
        "lost == 0",
        "p99(bench) < elapsed",
        "p99(bench) < 5MB",
        "p99(bench{route=/a}) < 5ms",
        "p99(bench) < 5ms in every 10s",
        "rate(bench) > 1/s",
        "goodput(bench) > 1/s",
        "value(bench) < 1",
        "p99(bench) <",
    ],
)
def test_a_gate_that_no_times_can_decide_is_refused(text: str) -> None:
    """It would be without effect in each test."""
    with pytest.raises(UsageError):
        gate_of(text)


def test_a_label_chooses_a_test() -> None:
    """A gate without labels concerns each test."""
    gate = gate_of('p50(bench{test="a.py::test_a[1, 2]"}) < 1s')
    assert concerns(gate, "a.py::test_a[1, 2]")
    assert not concerns(gate, "a.py::test_a[1]")
    assert concerns(gate_of("p50(bench) < 1s"), "any")


def test_long_ids_of_tests_stay_different() -> None:
    """A label has a limited length."""
    first, second = (label_of("x" * 300 + end) for end in "ab")
    assert first != second
    assert len(first) == limits.LABEL_VALUE_CHARS
    assert label_of("a.py::test_a") == "a.py::test_a"


@pytest.mark.parametrize("times_s", [[0.25], [1.0, 2.0, 3.0, 4.0, 100.0], [0.0, 0.0]])
def test_the_json_goes_round(tmp_path: Path, times_s: list[float]) -> None:
    """It has the fields of pytest-benchmark, and the times."""
    path = tmp_path / "times.json"
    measurement = {"name": "test_a[1]", "param": "1", "params": {"n": 1}, "times_s": times_s, "calls": 3}
    path.write_text(json_of({"a.py::test_a[1]": measurement}))
    (benchmark,) = json.loads(path.read_text())["benchmarks"]
    assert benchmark["fullname"] == "a.py::test_a[1]"
    assert (benchmark["name"], benchmark["param"], benchmark["params"]) == ("test_a[1]", "1", {"n": 1})
    assert set(benchmark["stats"]) == STATS
    assert benchmark["stats"]["iterations"] == 3
    assert read_json(path) == {"a.py::test_a[1]": times_s}


def test_figures_of_the_json() -> None:
    """An outlier is outside of both kinds of bounds."""
    measurement = {"name": "t", "param": None, "params": None, "times_s": [1.0, 2.0, 3.0, 4.0, 100.0], "calls": 1}
    stats = json.loads(json_of({"t": measurement}))["benchmarks"][0]["stats"]
    assert (stats["median"], stats["q1"], stats["q3"], stats["iqr"]) == (3.0, 2.0, 4.0, 2.0)
    assert (stats["ld15iqr"], stats["hd15iqr"], stats["outliers"]) == (1.0, 4.0, "1;1")
    assert (stats["mean"], stats["ops"], stats["total"], stats["rounds"]) == (22.0, 1 / 22.0, 110.0, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a JSON file of pytest-benchmark"),
        ("[]", "is not a JSON file of pytest-benchmark"),
        ('{"benchmarks": []}', "does not have the times of all rounds"),
        ('{"benchmarks": [{"fullname": "a", "stats": {"median": 1.0}}]}', "write it with --benchmark-json"),
        (
            '{"benchmarks": [{"fullname": "a", "stats": {"data": [-1.0]}}]}',
            "is not a JSON file of pytest-benchmark",
        ),
        ('{"benchmarks": [{"fullname": "a", "stats": {"data": ["1"]}}]}', "is not a JSON file of pytest-benchmark"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """The error names the file."""
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as error:
        read_json(path)
    assert str(path) in str(error.value)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(UsageError, match=r"can't read .*none\.json"):
        read_json(tmp_path / "none.json")
