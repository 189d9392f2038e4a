"""`telemetry.compat.torchelastic` beside the two originals: the same calls give the same output and values."""

from __future__ import annotations

import inspect
import re
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch.distributed.elastic.metrics as torch_metrics
import torch.distributed.elastic.metrics.api as torch_api
import torchelastic.metrics as old_metrics
import torchelastic.metrics.api as old_api

import telemetry.compat.torchelastic.metrics as ours
from telemetry.compat.torchelastic.metrics import api as our_api

NOW_S = 1574213883.4182858
ORIGINALS = {"torch": torch_metrics, "torchelastic 0.2.2": old_metrics}
APIS = {torch_metrics: torch_api, old_metrics: old_api, ours: our_api}
INTERFACE = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricsConfig",
    "NullMetricHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "initialize_metrics",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]
Program = Callable[[Any], object]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin each test without handlers, and with a wall clock that stands still."""
    monkeypatch.setattr(time, "time", lambda: NOW_S)
    monkeypatch.setattr(our_api, "_state", our_api._State())
    yield
    for module in (torch_api, old_api):
        module._metrics_map.clear()
        module.configure(module.NullMetricHandler())


@pytest.fixture(params=ORIGINALS.values(), ids=ORIGINALS)
def original(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Callable[[ModuleType, Program], list[str]]:
    """The function that returns what a program prints with one of the modules, line by line.

    Durations are those of a clock that stands still in the originals, and short ones in ours.
    """

    def run(module: ModuleType, program: Program) -> list[str]:
        capsys.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program(module)
        return re.sub(r"(\.duration\.ms=)\d+\b", r"\g<1>MS", capsys.readouterr().out).splitlines()

    return run


def keeper(metrics: Any) -> Any:
    """Return a handler of a module that keeps what it gets."""

    class Keeper(metrics.MetricHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            self.got: list[tuple[Any, ...]] = []

        def emit(self, metric_data: Any) -> None:
            self.got.append(tuple(metric_data))

    return Keeper()


# --- names and signatures ------------------------------------------------------------------------


@pytest.mark.parametrize("name", INTERFACE)
def test_calls_have_the_arguments_of_the_originals(original: ModuleType, name: str) -> None:
    """Our calls have the same argument names, order and defaults as those of the originals."""
    theirs, mine = getattr(original, name), getattr(ours, name)
    if name in ("MetricData", "MetricsConfig", "initialize_metrics") or not inspect.isclass(theirs):
        assert arguments(mine) == arguments(theirs)


def arguments(call: Any) -> list[tuple[str, object]]:
    return [(one.name, one.default) for one in inspect.signature(call).parameters.values()]


def test_streams_have_the_methods_of_the_originals(original: ModuleType) -> None:
    """The methods of our streams have the same arguments as those of the originals."""
    stream = APIS[original].MetricStream
    assert arguments(our_api.MetricStream) == arguments(stream)
    assert arguments(our_api.MetricStream.add_value) == arguments(stream.add_value)


def test_no_public_name_is_missing(original: ModuleType) -> None:
    """Modules that the originals import are not part of the interface."""
    for theirs, mine in ((original, ours), (APIS[original], our_api)):
        public = {
            name
            for name, value in vars(theirs).items()
            if not name.startswith("_") and str(getattr(value, "__module__", "")).startswith(original.__name__)
        }
        assert len(public) >= len(INTERFACE) - 1
        assert public <= set(dir(mine))


def test_metric_data_is_alike(original: ModuleType) -> None:
    """Fields and their order."""
    assert ours.MetricData._fields == original.MetricData._fields
    assert tuple(ours.MetricData(1.5, "g", "n", 2)) == tuple(original.MetricData(1.5, "g", "n", 2))


# --- the same calls ------------------------------------------------------------------------------


def put_values(metrics: Any) -> None:
    metrics.configure(metrics.ConsoleMetricHandler())
    for value in (0, 1, -1, 2.5, 10**30, float("nan"), float("inf"), True, "text", None, [1]):
        metrics.put_metric("value", value, "g")
    metrics.put_metric("in the default group", 1)
    metrics.put_metric(metric_name="by keyword", metric_value=2, metric_group="k")
    metrics.publish_metric("deprecated", "published", 3)
    metrics.getStream("stream").add_value("added", 4)
    metrics.put_metric("no group", 5, None)
    metrics.put_metric("", 6, "")


def change_handlers(metrics: Any) -> None:
    metrics.put_metric("before", 1, "a")
    metrics.configure(metrics.ConsoleMetricHandler(), "a")
    metrics.put_metric("own", 1, "a")
    metrics.put_metric("default", 1, "b")
    metrics.configure(metrics.ConsoleMetricHandler())
    metrics.put_metric("default", 2, "b")
    metrics.configure(metrics.NullMetricHandler(), group="a")
    metrics.put_metric("own", 2, "a")
    metrics.configure(handler=metrics.NullMetricHandler())
    metrics.put_metric("default", 3, "b")


def profile_calls(metrics: Any) -> None:
    metrics.configure(metrics.ConsoleMetricHandler())

    @metrics.prof
    def local() -> str:
        return "result"

    @metrics.prof(group="grouped")
    def fail() -> None:
        raise ValueError("expected")

    class Outer:
        class Inner:
            @metrics.prof
            def method(self, number: int, *, text: str) -> str:
                return f"{number}{text}"

        @staticmethod
        @metrics.prof
        def static() -> None: ...

        @classmethod
        @metrics.prof(group="c")
        def of_class(cls) -> str:
            return cls.__name__

    @metrics.profile("old")
    def profiled() -> int:
        return 3

    @metrics.profile()
    def profiled_badly() -> None:
        raise KeyError

    assert local() == "result"
    with pytest.raises(ValueError, match="expected"):
        fail()
    assert Outer.Inner().method(1, text="a") == "1a"
    Outer.static()
    assert Outer.of_class() == "Outer"
    assert profiled() == 3
    with pytest.raises(KeyError):
        profiled_badly()
    assert local.__name__ == "local"
    metrics.prof(module_function)()


def module_function() -> None: ...


@pytest.mark.parametrize(
    ("program", "lines"),
    [(put_values, 17), (change_handlers, 2), (profile_calls, 16)],
    ids=["values", "handlers", "profiled"],
)
def test_the_same_calls_print_the_same(
    original: ModuleType, output: Callable[[ModuleType, Program], list[str]], program: Program, lines: int
) -> None:
    """Line by line."""
    theirs = output(original, program)
    assert output(ours, program) == theirs
    assert len(theirs) == lines


def test_a_handler_of_the_program_gets_the_same(original: ModuleType) -> None:
    """Types included."""

    def emitted(metrics: Any) -> list[tuple[Any, ...]]:
        everything, own = keeper(metrics), keeper(metrics)
        metrics.configure(everything)
        metrics.configure(own, "own")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            put = [metrics.put_metric, metrics.getStream("own").add_value]
            put[0]("a", 1, "own")
            put[1]("b", 2.5)
            put[0]("c", "text")
            metrics.publish_metric("own", "d", None)
            metrics.prof(module_function)()
            APIS[metrics].MetricStream("direct", own).add_value("e", True)
        got: list[tuple[Any, ...]] = everything.got + own.got
        return [(*data, [type(part) for part in data]) for data in got]

    theirs = emitted(original)
    assert emitted(ours) == theirs
    assert len(theirs) == 7


def test_a_replaced_get_stream_gets_the_same(original: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of the originals replace it."""

    def emitted(metrics: Any) -> list[tuple[str, str]]:
        api, got = APIS[metrics], keeper(metrics)
        stream = api.MetricStream("replaced", got)
        with monkeypatch.context() as replaced:
            replaced.setattr(api, "getStream", lambda group: stream)
            metrics.put_metric("a", 1, "g")
            metrics.prof(module_function)()
        metrics.put_metric("b", 1, "g")
        assert api._get_metric_name(module_function) == "test_torchelastic.module_function"
        return [(group, name) for _, group, name, _ in got.got]

    assert emitted(ours) == emitted(original)
    assert len(emitted(ours)) == 3


def test_durations_are_those_of_the_originals(original: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Durations are in whole milliseconds, measured with a clock that runs."""
    monkeypatch.undo()

    def duration(metrics: Any) -> int:
        got = keeper(metrics)
        metrics.configure(got, "timed")
        metrics.prof(time.sleep, group="timed")(0.05)
        [milliseconds] = [value for _, _, name, value in got.got if name == "time.sleep.duration.ms"]
        assert type(milliseconds) is int
        return milliseconds

    assert 50 <= duration(original) < 5_000
    assert 50 <= duration(ours) < 5_000
    started_s = time.time() - 3
    assert original.get_elapsed_time_ms(started_s) // 1_000 == ours.get_elapsed_time_ms(started_s) // 1_000


# --- the documentation ---------------------------------------------------------------------------


def samples(text: str) -> list[str]:
    """Return the indented blocks after `::` that import the module, or use it."""
    blocks = re.findall(r"::\n\n((?:[ \t]+\S.*\n|\s*\n)+)", text)
    return [textwrap.dedent(block) for block in blocks if "metrics." in block]


def run_sample(metrics: Any, code: str) -> dict[str, Any]:
    """Run a sample with one of the modules. It uses names of handlers that the originals do not have."""
    code = re.sub(r"import (?:torch\.distributed\.elastic|torchelastic)\.metrics as metrics", "", code)
    if metrics is not ours:
        code = code.replace("MetricsHandler", "MetricHandler")
    code = code.replace("def baz():", "def baz(self):")  # the sample forgets it
    names = {"metrics": metrics, "calculate": lambda: None, "__name__": "examples.foobar"}
    exec(code, names)
    return names


def test_the_samples_of_the_documentation_print_the_same(
    original: ModuleType, output: Callable[[ModuleType, Program], list[str]]
) -> None:
    """Each with only its import changed, followed by calls of what it defines."""
    latency, profiled, configured, custom = samples(original.__doc__ or "")

    def use(metrics: Any) -> None:
        run_sample(metrics, latency)["my_method"]()
        names = run_sample(metrics, profiled)
        names["foo"]()
        names["Bar"]().baz()
        run_sample(metrics, configured)
        metrics.put_metric("a", 1)
        metrics.put_metric("a", 2, "my_app")
        run_sample(metrics, custom)
        metrics.put_metric("my_metric", 3, "my_app")

    theirs = output(original, use)
    assert output(ours, use) == theirs
    assert theirs == [
        f"[{NOW_S}][my_module]: calculate_latency=0",
        f"[{NOW_S}][torchelastic]: a=1",
        f"[{NOW_S}][my_app]: a=2",
        f"[{NOW_S}][my_app]: my_metric=3",
    ]


def test_the_samples_of_the_functions_print_the_same(
    original: ModuleType, output: Callable[[ModuleType, Program], list[str]]
) -> None:
    """The samples in the docstrings of `prof` and `put_metric` print the same with our module."""
    [decorated] = samples(inspect.getdoc(original.prof) + "\n")  # type: ignore[operator]
    puts = re.findall(r"^\s+(put_metric\(.*\))$", original.put_metric.__doc__ or "", re.MULTILINE)
    assert len(puts) == 2

    def use(metrics: Any) -> None:
        metrics.configure(metrics.ConsoleMetricHandler())
        names = run_sample(metrics, decorated)
        names["x"]()
        names["y"]()
        for call in puts:
            exec(call, {"put_metric": metrics.put_metric})

    theirs = output(original, use)
    assert output(ours, use) == theirs
    assert theirs == [
        f"[{NOW_S}][torchelastic]: foobar.x.success=1",
        f"[{NOW_S}][torchelastic]: foobar.x.duration.ms=MS",
        f"[{NOW_S}][agent]: foobar.y.success=1",
        f"[{NOW_S}][agent]: foobar.y.duration.ms=MS",
        f"[{NOW_S}][torchelastic]: metric_name=1",
        f"[{NOW_S}][metric_group_name]: metric_name=1",
    ]


# --- better than the originals -------------------------------------------------------------------


def test_handlers_of_the_originals_work_with_ours(
    original: ModuleType, output: Callable[[ModuleType, Program], list[str]]
) -> None:
    """A handler of the originals works with ours, so a program may change one import after another."""

    def use(metrics: Any) -> None:
        ours.configure(original.ConsoleMetricHandler(), "g")
        ours.put_metric("a", 1, "g")

    assert output(ours, use) == [f"[{NOW_S}][g]: a=1"]


def test_a_broken_handler_breaks_only_programs_of_the_originals(original: ModuleType) -> None:
    """There its error replaces the result of a function."""

    def call(metrics: Any) -> str:
        class Broken(metrics.MetricHandler):  # type: ignore[misc]
            def emit(self, metric_data: Any) -> None:
                raise ConnectionError

        metrics.configure(Broken())
        result: str = metrics.prof(lambda: "result")()
        return result

    with pytest.raises(ConnectionError):
        call(original)
    assert call(ours) == "result"
