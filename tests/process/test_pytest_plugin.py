"""Runs of pytest with the plug-in, in processes of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.history import load_report

pytest_plugins = ["pytester"]

Child = Callable[..., pytest.RunResult]

CLOCK = """
import telemetry.integrations.pytest_plugin as plugin

BEGAN_NS = plugin.monotonic_ns()
spent_ns = calls = 0

def spend(ns):
    global spent_ns, calls
    spent_ns += ns + ns // 100 * (calls % 2)
    calls += 1

plugin.monotonic_ns = lambda: BEGAN_NS + spent_ns
"""
"""A clock that tests move. It begins at the present, because the rounds are recorded with their times.

Every other call takes 1 % more.
"""

TESTS = """
import pytest
from clock import spend

@pytest.mark.parametrize("n", [1, 2])
def test_fast(telemetry_bench, n):
    telemetry_bench(spend, 1_000_000 * n, rounds=20)

def test_slow(telemetry_bench):
    telemetry_bench(spend, 4_000_000, rounds=20)
"""


@pytest.fixture
def child(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Child:
    """Return a function that runs pytest in a folder with these tests. Other plug-ins are not loaded."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    pytester.makepyfile(clock=CLOCK)
    pytester.makeini("[pytest]\npythonpath = .\naddopts = --strict-markers\n")

    def run(tests: str, *args: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=tests)
        return pytester.runpytest_subprocess("-p", "telemetryd_pytest", *args, timeout=60)

    return run


def run_directory(result: pytest.RunResult) -> Path:
    """Return the folder that the last line of the summary names."""
    (directory,) = re.findall(r"applied, 0 lost · (\S+)$", result.stdout.str(), re.MULTILINE)
    return Path(directory)


def test_without_an_option_the_function_is_called_once(child: Child) -> None:
    """The fixture and the marker work, and nothing of telemetry is imported."""
    result = child(
        """
        import sys
        import pytest

        @pytest.mark.telemetry_bench(gate="p50(bench) < 1ns")
        def test_it(telemetry_bench):
            calls = []
            assert telemetry_bench(lambda *args, **names: calls.append((args, names)) or "value", 1, a=2) == "value"
            assert telemetry_bench is not None
            assert calls == [((1,), {"a": 2})]
            loaded = {name.partition(".")[0] for name in sys.modules}
            assert not loaded & {"telemetry", "telemetryd_plugins", "numpy", "zmq", "msgspec"}
        """
    )
    result.assert_outcomes(passed=1)
    assert "telemetry" not in result.stdout.str()
    assert not Path("runs").exists()


def test_a_project_with_a_module_of_our_name(child: Child) -> None:
    """It runs as before, and is told why there are no benchmarks if it asks for them."""
    Path("telemetry.py").write_text("NAME = 'own'\n")
    tests = "import telemetry\ndef test_it(): assert telemetry.NAME == 'own'\n"
    child(tests).assert_outcomes(passed=1)
    result = child(tests, "--telemetry")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: can't import telemetry: *"])


@pytest.mark.parametrize("args", [(), ("--telemetry",)])
def test_wrong_calls_of_the_fixture(child: Child, args: tuple[str, ...]) -> None:
    """They fail in every run, so that nobody finds them later."""
    child(
        """
        import pytest

        def test_rounds(telemetry_bench):
            with pytest.raises(ValueError, match="give 1 or more"):
                telemetry_bench(print, rounds=0)
            with pytest.raises(ValueError, match="give 0 or more"):
                telemetry_bench(print, warmup=-1)

        def test_twice(telemetry_bench):
            telemetry_bench(print, rounds=1)
            with pytest.raises(RuntimeError, match="twice"):
                telemetry_bench(print)

        def test_coroutine(telemetry_bench):
            async def work(): pass
            with pytest.raises(TypeError, match="coroutine"):
                telemetry_bench(work)

        def test_error(telemetry_bench):
            with pytest.raises(ZeroDivisionError):
                telemetry_bench(lambda: 1 / 0)
        """,
        *args,
    ).assert_outcomes(passed=4)


def test_a_run_has_a_series_for_each_test(child: Child) -> None:
    """The table shows the same figures."""
    result = child(TESTS, "--telemetry")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "*= telemetry =*",
            "test                       median      p99  rounds",
            "test_it.py::test_fast[[]1[]]  1.00 ms  1.01 ms      20",
            "test_it.py::test_fast[[]2[]]  2.00 ms  2.02 ms      20",
            "test_it.py::test_slow     4.00 ms  4.04 ms      20",
            "complete: pytest, 60 of 60 events applied, 0 lost · *",
        ],
        consecutive=True,
    )
    report = load_report(run_directory(result))
    series = report.series("bench", test="test_it.py::test_fast[2]")
    assert (series.count, series.percentiles["50"]) == (20, pytest.approx(0.002))


@pytest.mark.slow
def test_workers_of_xdist_record_one_run(child: Child) -> None:
    """The controller has the table, the file and the comparison."""
    options = ["-p", "xdist", "-n", "2", "--telemetry-json", "now.json"]
    first = child(TESTS, *options)
    first.assert_outcomes(passed=3)
    report = load_report(run_directory(first))
    assert report.snapshot.accounting.applied == 60
    assert len(report.snapshot.series) == 3
    assert len(report.snapshot.producers) == 3
    assert {benchmark["fullname"] for benchmark in json.loads(Path("now.json").read_text())["benchmarks"]} == {
        stat.labels["test"] for stat in report.snapshot.series
    }
    gate = ("--telemetry-gate", "p50(bench) < baseline * 1.5")
    second = child(TESTS.replace("4_000_000", "8_000_000"), *options, "--telemetry-compare", "latest", *gate)
    second.assert_outcomes(passed=2, failed=1)
    second.stdout.fnmatch_lines(
        [
            "*p50(bench) < baseline * 1.5: 8.00 ms is not < 6.00 ms (95 %: 8.00 ms to 8.08 ms, 20 values)",
            "test_it.py::test_slow*8.00 ms*+100 %  differs in these two runs",
        ]
    )


def test_a_failing_gate_fails_its_test(child: Child) -> None:
    """With the value, the interval and the number of values. A gate with a label concerns one test."""
    gates = ("p50(bench) < 3ms", "max(bench{test=test_it.py::test_slow}) < 1s", "max(bench{test=no.py::test}) < 1s")
    result = child(TESTS, *(text for gate in gates for text in ("--telemetry-gate", gate)))
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ test_slow _*",
            "p50(bench) < 3ms: 4.00 ms is not < 3.00 ms (95 %: 4.00 ms to 4.04 ms, 20 values)",
            "not checked: max(bench{test=no.py::test}) < 1s: no test of this run has this label",
        ]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_gates_of_markers(child: Child) -> None:
    """They hold for one test, or for all tests of a class."""
    result = child(
        """
        import pytest
        from clock import spend

        @pytest.mark.telemetry_bench(gate=["max(bench) < 1s", "min(bench) > 3ms"])
        class TestBoth:
            def test_fails(self, telemetry_bench):
                telemetry_bench(spend, 2_000_000, rounds=5)

            def test_passes(self, telemetry_bench):
                telemetry_bench(spend, 4_000_000, rounds=5)

            def test_without_times(self):
                pass

        @pytest.mark.telemetry_bench(gates="max(bench) < 1s")
        def test_other_argument(telemetry_bench):
            telemetry_bench(spend, 1, rounds=5)

        @pytest.mark.telemetry_bench(gate="max(bench) <")
        def test_unreadable(telemetry_bench):
            telemetry_bench(spend, 1, rounds=5)

        @pytest.mark.telemetry_bench(gate="max(bench) < 1ns")
        def test_own_failure(telemetry_bench):
            telemetry_bench(spend, 2_000_000, rounds=5)
            assert "own" == "failure"
        """,
        "--telemetry",
    )
    result.assert_outcomes(passed=1, failed=5)
    result.stdout.fnmatch_lines(
        [
            "min(bench) > 3ms: 2.00 ms is not > 3.00 ms (5 values)",
            "the test has a gate, but does not call telemetry_bench",
            "telemetry_bench takes `gate` only (@pytest.mark.telemetry_bench(gate='p99(bench) < 5ms'))",
            "expected a number, a figure*",
            "E   *AssertionError: *",
        ]
    )
    assert "max(bench) < 1ns:" not in result.stdout.str()


def test_too_few_rounds_are_a_warning(child: Child) -> None:
    """The test passes, unless warnings are errors."""
    gate = ("--telemetry-gate", "p99(bench) < 1s")
    result = child(TESTS, *gate)
    result.assert_outcomes(passed=3, warnings=3)
    warning = "*can't tell: p99(bench) < 1s: * but 20 values are too few: needs *"
    result.stdout.fnmatch_lines([f"*PytestWarning: {warning}"])
    child(TESTS, *gate, "-W", "error::pytest.PytestWarning").assert_outcomes(failed=3)


def test_a_comparison_with_a_file_of_pytest_benchmark(child: Child) -> None:
    """Its tests have the same ids. The baseline of gates is in the file, too."""
    times = {"test_it.py::test_fast[1]": [0.001] * 20, "test_it.py::test_slow": [0.002] * 20, "no.py::test": [1.0]}
    stats = [{"fullname": test, "stats": {"data": data, "ops": 1.0}} for test, data in times.items()]
    Path("before.json").write_text(json.dumps({"benchmarks": stats, "version": "5.3.1"}))
    result = child(TESTS, "--telemetry-compare", "before.json", "--telemetry-gate", "p50(bench) <= baseline * 1.05")
    result.assert_outcomes(passed=2, failed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "p50(bench) <= baseline * 1.05: 4.00 ms is not <= 2.10 ms (95 %: 4.00 ms to 4.04 ms, 20 values)",
            "test*median*p99*rounds*change*verdict",
            "test_it.py::test_fast[[]1[]]*0 %  no difference that matters",
            "test_it.py::test_fast[[]2[]]*–  new",
            "test_it.py::test_slow*+100 %  differs in these two runs",
            "one run a side does not show the noise between runs: `telemetry ab` does",
        ]
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--telemetry-gate", "lost == 0"], "*'lost == 0' is not a condition on the times of a test*"),
        (
            ["--telemetry-gate", "p50(bench) < baseline"],
            "*a gate has a baseline (give it with --telemetry-compare)",
        ),
        (["--telemetry-compare", "none"], "*no run*none*"),
        (["--telemetry-compare", "none.json"], "*can't read none.json: No such file or directory"),
        (["--telemetry-json", "none/now.json"], "*can't write none/now.json: none is not a folder"),
    ],
)
def test_options_that_can_not_work_stop_at_once(child: Child, args: list[str], message: str) -> None:
    """No test runs."""
    result = child(TESTS, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: telemetry: {message}"])
    assert not Path("runs").exists()


def test_a_run_without_benchmarks(child: Child) -> None:
    """It can't be compared with, and says so."""
    result = child("def test_it(): pass", "--telemetry")
    result.stdout.fnmatch_lines(["no test called telemetry_bench"])
    result = child(TESTS, "--telemetry-compare", "latest")
    result.stderr.fnmatch_lines(["ERROR: telemetry: latest has no times of tests (*"])


def test_a_list_of_tests_starts_no_run(child: Child) -> None:
    """Nothing is timed."""
    assert child(TESTS, "--telemetry", "--collect-only").ret == 0
    assert not Path("runs").exists()


def test_a_run_that_a_test_finishes(child: Child) -> None:
    """Times after that would not be in the result."""
    tests = "import telemetry\ndef test_first():\n    telemetry.start().finish()\n"
    result = child(f"{tests}def test_second(telemetry_bench):\n    telemetry_bench(int)\n", "--telemetry")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*a test has finished the run of --telemetry: *"])
