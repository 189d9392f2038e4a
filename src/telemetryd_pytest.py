"""Options, a marker and a fixture for pytest, which loads this module wherever telemetry is installed.

It is a module of its own, because a project may have a module named `telemetry`, which hides the package. Without
an option of telemetry, it imports nothing else.

pytest has imported it before it looks for assertions: PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

OPTIONS = ("telemetry", "telemetry_gate", "telemetry_compare", "telemetry_json")
_PLUGIN = "telemetry-benchmarks"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options. Each of them turns the plug-in on."""
    group = parser.getgroup("telemetry", "benchmarks with telemetry_bench")
    group.addoption(
        "--telemetry", action="store_true", help="time the calls of telemetry_bench and record them as a run"
    )
    group.addoption(
        "--telemetry-gate",
        action="append",
        default=[],
        metavar="EXPR",
        help="fail each test whose times break a condition, such as 'p99(bench) < 5ms'",
    )
    group.addoption(
        "--telemetry-compare",
        metavar="RUN",
        help="show the change against a run, or a JSON file of pytest-benchmark; `baseline` stands for it in gates",
    )
    group.addoption(
        "--telemetry-json", metavar="FILE", help="write the times to a file in the format of pytest-benchmark"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and register the rest of the plug-in if an option asks for it."""
    config.addinivalue_line(
        "markers",
        "telemetry_bench(gate): condition on the times of telemetry_bench in this test, or a list of them",
    )
    if not any(config.getoption(option) for option in OPTIONS):
        return
    try:
        from telemetry.integrations.pytest_plugin import Benchmarks
    except ImportError as error:
        raise pytest.UsageError(f"can't import telemetry: {error}") from None
    config.pluginmanager.register(Benchmarks(config), _PLUGIN)


@pytest.fixture
def telemetry_bench(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Time calls of a function: `telemetry_bench(function, *args, rounds=…, warmup=…, **kwargs)`.

    Return the value of the last call. Without `rounds`, the function is called for about a second. A short function
    is called several times in each round. With `rounds`, each round is one call. `warmup` calls come first and
    don't count.

    Without `pytest --telemetry`, the function is called once.
    """
    benchmarks = request.config.pluginmanager.get_plugin(_PLUGIN)
    is_used = False

    def bench(
        function: Callable[..., Any], /, *args: Any, rounds: int | None = None, warmup: int = 1, **kwargs: Any
    ) -> Any:
        nonlocal is_used
        _check(function, rounds, warmup, is_used)
        is_used = True
        if benchmarks is None:
            return function(*args, **kwargs)
        return benchmarks.bench(request.node, partial(function, *args, **kwargs), rounds, warmup)

    return bench


def _check(function: Callable[..., Any], rounds: int | None, warmup: int, is_used: bool) -> None:
    from inspect import iscoroutinefunction

    if is_used:
        raise RuntimeError("telemetry_bench was called twice in a test: use a test for each function")
    if iscoroutinefunction(function):
        raise TypeError("telemetry_bench can't time a coroutine function: time a function that runs it to its end")
    if rounds is not None and rounds < 1:
        raise ValueError(f"rounds={rounds}: give 1 or more")
    if warmup < 0:
        raise ValueError(f"warmup={warmup}: give 0 or more")
