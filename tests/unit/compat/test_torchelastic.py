"""The metrics interface of torchelastic: handlers, groups, `prof`, and the series of a run."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.client import module_level, start, user_warnings
from telemetry.client import run as run_module
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.compat import torchelastic as package
from telemetry.compat.torchelastic import metrics
from telemetry.compat.torchelastic.metrics import api
from telemetry.errors import UsageError
from telemetry.testing.aggregator import FakeAggregator, Heard
from telemetry.wire import rows
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Define

Emitted = tuple[str, str, Any]
"""Group, name, value."""


class Keeper(metrics.MetricHandler):
    """A handler that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[metrics.MetricData] = []

    def emit(self, metric_data: metrics.MetricData) -> None:
        self.got.append(metric_data)

    @property
    def emitted(self) -> list[Emitted]:
        return [(data.group_name, data.name, data.value) for data in self.got]

    @property
    def names(self) -> list[str]:
        return [data.name for data in self.got]


class Broken(metrics.MetricHandler):
    """A handler that always fails."""

    def emit(self, metric_data: metrics.MetricData) -> None:
        raise ConnectionError("the sink is down")


class SameValue:
    """An object that can't be compared."""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test as a new process does."""
    monkeypatch.setattr(api, "_state", api._State())
    monkeypatch.setattr(user_warnings, "_reported", set())


@pytest.fixture
def keeper() -> Keeper:
    made = Keeper()
    metrics.configure(made)
    return made


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [record.getMessage() for record in caplog.records if record.name == "telemetry.client"]


Recorded = Callable[[], dict[tuple[str, str, str], list[float]]]


@pytest.fixture
def recorded(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    """A run, and the function that ends it and returns its values by kind, name and group."""
    monkeypatch.setenv("TELEMETRY_EMIT__FLUSH_MS", "2")
    with FakeAggregator(short_dir) as aggregator:
        monkeypatch.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)
        run = start("job")

        def end() -> dict[tuple[str, str, str], list[float]]:
            run.finish()
            [producer] = aggregator.heard.values()
            return values_of(producer)

        yield end
        run_module._STARTER.run = None
        PROCESS.finish(5.0)
        PROCESS.reopen()
        PROCESS._late.take()


def values_of(producer: Heard) -> dict[tuple[str, str, str], list[float]]:
    known: dict[int, Define] = {}
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for batch in producer.batches:
        for raw in batch.records:
            record = decode_record(raw)
            if isinstance(record, Define):
                known[record.id] = record
        flat = rows.loose(batch.rows)
        for row_id, value in zip(flat[::3], flat[2::3], strict=True):
            made = known[int(row_id)]
            values[made.kind, made.name, made.labels.get("group", "")].append(value)
    return dict(values)


# --- handlers ------------------------------------------------------------------------------------


def test_a_handler_gets_each_value(keeper: Keeper) -> None:
    """A handler gets each value with the wall-clock time, as torchelastic gives it."""
    before = time.time()
    metrics.put_metric("examples", 3, "train")
    metrics.put_metric("alive", 1)
    metrics.getStream("eval").add_value("loss", 0.5)
    assert keeper.emitted == [("train", "examples", 3), ("torchelastic", "alive", 1), ("eval", "loss", 0.5)]
    assert all(before <= data.timestamp <= time.time() for data in keeper.got)


def test_values_reach_a_handler_as_they_are(keeper: Keeper) -> None:
    """Values that no series takes reach a handler unchanged, too."""
    odd = [-1, math.nan, "text", None, SameValue(), True, [1, 2]]
    for value in odd:
        metrics.put_metric("odd", value, "g")
    assert [data.value for data in keeper.got] == odd


def test_the_console_handler_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The console handler prints time, group, name and value on one line."""
    metrics.configure(metrics.ConsoleMetricHandler())
    metrics.ConsoleMetricHandler().emit(metrics.MetricData(1574213883.4182858, "my_app", "my_metric", 7))
    assert capsys.readouterr().out == "[1574213883.4182858][my_app]: my_metric=7\n"


def test_the_spelling_of_the_documentation_works() -> None:
    """`ConsoleMetricsHandler`, as torch's documentation spells it, works although torch itself lacks that name."""
    assert metrics.ConsoleMetricsHandler is metrics.ConsoleMetricHandler
    assert metrics.NullMetricsHandler is metrics.NullMetricHandler


def test_a_handler_of_a_group_wins_over_the_default(keeper: Keeper) -> None:
    """A group's handler is used until another one is configured for the group."""
    own = Keeper()
    metrics.configure(own, "mine")
    metrics.put_metric("a", 1, "mine")
    metrics.put_metric("a", 2, "other")
    assert (own.emitted, keeper.emitted) == ([("mine", "a", 1)], [("other", "a", 2)])
    metrics.configure(metrics.NullMetricHandler(), "mine")
    metrics.put_metric("a", 3, "mine")
    assert len(own.got) == 1
    assert len(keeper.got) == 1


def test_a_pattern_stands_for_groups() -> None:
    """The exact name wins over it, and an earlier pattern over a later one."""
    exact, first, second = Keeper(), Keeper(), Keeper()
    metrics.configure(first, "train.*")
    metrics.configure(second, "*")
    metrics.configure(exact, "train.loss")
    for group in ("train.loss", "train.speed", "eval"):
        metrics.put_metric("a", 1, group)
    assert [keeper.got[0].group_name for keeper in (exact, first, second)] == ["train.loss", "train.speed", "eval"]


def test_a_removed_handler_gets_nothing_more(keeper: Keeper) -> None:
    """A group whose handler is removed has the default handler again."""
    own = Keeper()
    metrics.configure(own, "mine")
    metrics.unconfigure("mine")
    metrics.unconfigure("never configured")
    metrics.put_metric("a", 1, "mine")
    assert (own.got, keeper.emitted) == ([], [("mine", "a", 1)])
    metrics.unconfigure()
    metrics.put_metric("a", 2, "mine")
    assert len(keeper.got) == 1


def test_a_stream_follows_later_configuration() -> None:
    """A stream follows later configuration; in torchelastic it keeps the handler it was taken with."""
    stream = metrics.getStream("late")
    assert isinstance(stream, metrics.MetricStream)
    stream.add_value("a", 1)
    keeper = Keeper()
    metrics.configure(keeper, "late")
    stream.add_value("a", 2)
    assert (keeper.emitted, stream.handler) == ([("late", "a", 2)], keeper)


def test_a_stream_with_a_handler_keeps_it(keeper: Keeper) -> None:
    """A stream that is made with a handler keeps it, whatever is configured for its group."""
    own = Keeper()
    stream = metrics.MetricStream("g", own)
    metrics.configure(keeper, "g")
    stream.add_value("a", 1)
    assert (own.emitted, keeper.got, stream.group_name, stream.handler) == ([("g", "a", 1)], [], "g", own)


def test_a_fault_of_a_handler_is_reported_once(said: Callable[[], list[str]]) -> None:
    """A handler's fault reaches neither `put_metric` nor a profiled function."""
    metrics.configure(Broken())
    metrics.put_metric("a", 1)
    metrics.getStream("g").add_value("b", 2)
    metrics.MetricStream("g", Broken()).add_value("c", 3)
    assert metrics.prof(lambda: "result")() == "result"
    [line] = said()
    assert line.startswith("telemetry: Broken.emit() failed for metric 'a': ConnectionError: the sink is down.")


def test_a_handler_without_emit_is_a_fault_like_others(said: Callable[[], list[str]]) -> None:
    """A handler without `emit` is reported, and the program goes on."""
    metrics.configure(object())  # type: ignore[arg-type]
    metrics.put_metric("a", 1)
    assert len(said()) == 1


def test_groups_and_names_of_any_type_reach_the_handler(keeper: Keeper, said: Callable[[], list[str]]) -> None:
    """A handler gets groups and names of any type, as in torchelastic.

    A name that can't be an instrument is reported.
    """
    metrics.put_metric("a", 1, None)  # type: ignore[arg-type]
    metrics.put_metric(7, 2, "g")  # type: ignore[arg-type]
    metrics.put_metric(["b"], 3, "g")  # type: ignore[arg-type]
    metrics.put_metric("c", 4, ["g"])  # type: ignore[arg-type]
    assert keeper.emitted == [(None, "a", 1), ("g", 7, 2), ("g", ["b"], 3), (["g"], "c", 4)]
    assert [line.partition(":")[2].strip() for line in said()] == [
        "metric 7 is not recorded: a name must be a string, not int",
        "metric ['b'] is not recorded: a name must be a string, not list",
    ]


def test_handlers_may_be_configured_while_others_put(keeper: Keeper) -> None:
    """Each value goes to one of the handlers."""
    other = Keeper()
    done = threading.Event()

    def turn() -> None:
        while not done.is_set():
            metrics.configure(other, "g")
            metrics.unconfigure("g")

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        for value in range(5_000):
            metrics.put_metric("a", value, "g")
    finally:
        done.set()
        thread.join()
    assert sorted(data.value for data in keeper.got + other.got) == list(range(5_000))


# --- initialize_metrics --------------------------------------------------------------------------


def test_a_configuration_names_handlers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A configuration names handlers by short names, or by module and class."""
    sink = type(sys)("sink")
    sink.Keeper = Keeper  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sink", sink)
    metrics.initialize_metrics()
    metrics.initialize_metrics(metrics.MetricsConfig())
    metrics.initialize_metrics(metrics.MetricsConfig({"shown": "console", "hidden": "null", "*": "sink:Keeper"}))
    for group in ("shown", "hidden", "other"):
        metrics.put_metric("a", 1, group)
    keeper = metrics.getStream("other").handler
    assert isinstance(keeper, Keeper)
    assert keeper.emitted == [("other", "a", 1)]
    assert capsys.readouterr().out.endswith("][shown]: a=1\n")


@pytest.mark.parametrize(
    "name", ["consle", "", "json:", ":Keeper", "no_such_module_here:Sink", "json:Sink", "json:dumps"]
)
def test_a_configuration_with_an_unknown_handler_changes_nothing(name: str) -> None:
    """The error says what is possible."""
    with pytest.raises(UsageError, match=r"group 'g' can't have the handler .*use console, null, or MODULE:CLASS"):
        metrics.initialize_metrics(metrics.MetricsConfig({"other": "console", "g": name}))
    assert isinstance(metrics.getStream("other").handler, metrics.NullMetricHandler)


# --- prof ----------------------------------------------------------------------------------------


@metrics.prof
def plain() -> str:
    return "result"


class Worker:
    """A class with profiled methods."""

    @metrics.prof(group="work")
    def work(self, seconds: float = 0.0) -> None:
        time.sleep(seconds)


def test_prof_puts_outcome_and_duration(keeper: Keeper) -> None:
    """A function is named after its module, a method after its class."""
    assert plain() == "result"
    Worker().work(0.02)
    module = __name__.rpartition(".")[2]
    assert keeper.emitted[:2] == [
        ("torchelastic", f"{module}.plain.success", 1),
        ("torchelastic", f"{module}.plain.duration.ms", 0),
    ]
    (_, success, one), (group, duration, milliseconds) = keeper.emitted[2:]
    assert (success, one, group, duration) == ("Worker.work.success", 1, "work", "Worker.work.duration.ms")
    assert type(milliseconds) is int
    assert milliseconds >= 20


def test_prof_keeps_what_a_function_is() -> None:
    """A profiled function keeps its name, and a coroutine function stays one."""
    assert plain.__name__ == "plain"
    assert asyncio.iscoroutinefunction(metrics.prof(asyncio.sleep))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_any_exception_is_a_failure(keeper: Keeper, error: type[BaseException]) -> None:
    """KeyboardInterrupt and SystemExit included, which torchelastic counts as neither."""

    @metrics.prof
    def fail() -> None:
        raise error

    with pytest.raises(error):
        fail()
    assert [name.rpartition("fail.")[2] for name in keeper.names] == ["failure", "duration.ms"]


async def test_a_coroutine_is_measured_until_it_returns(keeper: Keeper) -> None:
    """A coroutine is measured until it returns; in torchelastic only its creation is measured."""

    @metrics.prof
    async def rest(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "rested"

    waiting = rest(0.02)
    assert keeper.got == []
    assert await waiting == "rested"
    assert keeper.names[0].endswith("rest.success")
    assert keeper.got[1].value >= 19  # asyncio may wake up a little early


async def test_a_cancelled_coroutine_failed(keeper: Keeper) -> None:
    """A coroutine that is cancelled counts as failed, as after any other exception."""

    @metrics.prof
    async def rest() -> None:
        await asyncio.Event().wait()

    task = asyncio.ensure_future(rest())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert keeper.names[0].endswith("rest.failure")


def test_a_generator_is_measured_until_its_end(keeper: Keeper) -> None:
    """A measured generator passes on the values that are sent and returned."""

    @metrics.prof
    def count(most: int) -> Generator[int, str, str]:
        sent = ""
        for number in range(most):
            sent += yield number
        return sent

    counting = count(2)
    assert next(counting) == 0
    assert counting.send("a") == 1
    assert keeper.got == []
    with pytest.raises(StopIteration, match="ab"):
        counting.send("b")
    assert keeper.names[0].endswith("count.success")


def test_a_generator_that_is_closed_early_succeeded(keeper: Keeper) -> None:
    """A generator whose consumer had enough counts as a success."""

    @metrics.prof
    def count() -> Generator[int, None, None]:
        yield from range(10)

    counting = count()
    next(counting)
    counting.close()
    assert [name.rpartition("count.")[2] for name in keeper.names] == ["success", "duration.ms"]


async def test_an_async_generator_is_measured_until_its_end(keeper: Keeper) -> None:
    """A measured async generator passes on the values and exceptions that are sent and thrown."""

    @metrics.prof
    async def count(most: int) -> AsyncGenerator[int, str]:
        for number in range(most):
            try:
                assert (yield number) in (None, "a")
            except LookupError:
                yield -1

    assert [number async for number in count(3)] == [0, 1, 2]
    assert keeper.names[0].endswith("count.success")

    counting = count(3)
    assert await anext(counting) == 0
    assert await counting.asend("a") == 1
    assert await counting.athrow(LookupError) == -1
    with pytest.raises(ValueError, match="the consumer's"):
        await counting.athrow(ValueError("the consumer's"))
    assert keeper.names[2].endswith("count.failure")

    closed = count(3)
    await anext(closed)
    await closed.aclose()
    assert keeper.names[4].endswith("count.success")
    assert len(keeper.got) == 6


def test_a_callable_object_is_named_after_its_class(keeper: Keeper) -> None:
    """A callable object is named after its class, because it has no name of its own."""

    class Step:
        def __call__(self) -> int:
            return 7

    assert metrics.prof(Step())() == 7
    assert keeper.names[0].endswith("Step.success")


def test_the_deprecated_calls_warn_and_work(keeper: Keeper) -> None:
    """The warning names the call to use."""
    with pytest.warns(FutureWarning, match="use put_metric"):
        metrics.publish_metric("g", "a", 1)
    with pytest.warns(FutureWarning, match="use prof"):
        profiled = metrics.profile("g")

    @profiled
    def named() -> None: ...

    named()
    assert keeper.emitted == [("g", "a", 1), ("g", "named.success", 1), ("g", "named.duration.ms", 0)]


def test_elapsed_time_is_in_whole_milliseconds() -> None:
    """The elapsed time counts from a time of the wall clock, in whole milliseconds."""
    elapsed = metrics.get_elapsed_time_ms(time.time() - 2.0)
    assert type(elapsed) is int
    assert 2_000 <= elapsed < 60_000


# --- the run -------------------------------------------------------------------------------------


def test_each_metric_is_a_series_with_its_group(recorded: Recorded) -> None:
    """Each metric is a series with its group, whatever the handler does, and without any handler."""
    metrics.configure(Broken(), "broken")
    for value in (1, 2.5, True):
        metrics.put_metric("te.examples", value, "train")
    metrics.put_metric("te.examples", 7, "broken")
    metrics.put_metric("te.alive", 1)
    metrics.getStream("train").add_value("te.loss", 0.5)
    metrics.MetricStream("train", Keeper()).add_value("te.loss", 0.25)
    metrics.put_metric("te.ungrouped", 4, None)  # type: ignore[arg-type]
    assert recorded() == {
        ("series", "te.examples", "train"): [1, 2.5, 1],
        ("series", "te.examples", "broken"): [7],
        ("series", "te.alive", "torchelastic"): [1],
        ("series", "te.loss", "train"): [0.5, 0.25],
        ("series", "te.ungrouped", ""): [4],
    }


def test_values_below_zero_and_not_finite_are_kept(recorded: Recorded) -> None:
    """Values that a series can't hold are kept under longer names."""
    for value in (-3, 2, -1.5, math.nan, math.inf, -math.inf):
        metrics.put_metric("te.delta", value, "g")
    metrics.put_metric("te.cold", -5, "g")
    assert recorded() == {
        ("series", "te.delta", "g"): [2],
        ("gauge", "te.delta.below_zero", "g"): [-3, -1.5],
        ("counter", "te.delta.not_finite", "g"): [1, 1, 1],
        ("gauge", "te.cold.below_zero", "g"): [-5],
    }


def test_durations_are_recorded_with_their_fraction(recorded: Recorded) -> None:
    """The handler gets whole milliseconds."""
    keeper = Keeper()
    metrics.configure(keeper)
    metrics.prof(lambda: time.sleep(0.0105), group="te")()
    values = recorded()
    [name] = [name for _, name, _ in values if name.endswith("duration.ms")]
    [milliseconds] = values["series", name, "te"]
    assert int(milliseconds) == keeper.got[1].value
    assert milliseconds != int(milliseconds)
    assert PROCESS.catalog.instrument("series", name, "ms", {"group": "te"}).unit == "ms"


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("te.prof.duration.ms", "ms"),
        ("checkpoint.write_latency_ms", "ms"),
        ("te_wait_s", "s"),
        ("te_gap_us", "us"),
        ("te_gap_ns", "ns"),
        ("te_shard_bytes", "bytes"),
        ("te_tokens_per_s", ""),
        ("te_items", ""),
        ("te.forms", ""),
        ("s", ""),
        ("te_ms_late", ""),
    ],
)
def test_the_end_of_a_name_is_its_unit(recorded: Recorded, name: str, unit: str) -> None:
    """A rate per second has none."""
    metrics.put_metric(name, 3, "unit")
    assert recorded()["series", name, "unit"] == [3]
    assert PROCESS.catalog.instrument("series", name, unit, {"group": "unit"}).unit == unit


def test_a_name_that_is_in_use_otherwise_is_reported_once(said: Callable[[], list[str]]) -> None:
    """The program goes on, and the handler gets the values."""
    module_level.gauge("te.taken")
    keeper = Keeper()
    metrics.configure(keeper)
    for group in ("a", "a", "b"):
        metrics.put_metric("te.taken", 1, group)
    assert len(keeper.got) == 3
    assert said() == [
        "telemetry: metric 'te.taken' is not recorded: 'te.taken' is already a gauge, so it can't be a series"
    ]


def test_a_value_that_is_no_number_is_counted(recorded: Recorded) -> None:
    """The report counts a value that is no number under `not_a_number`."""
    PROCESS.recorders.refused.take()
    for value in ("3", None, [1.0, 2.0], SameValue()):
        metrics.put_metric("te.word", value)
    assert PROCESS.recorders.refused.take() == 4
    metrics.put_metric("te.word", 1)
    assert recorded() == {("series", "te.word", "torchelastic"): [1]}


# --- names ---------------------------------------------------------------------------------------


def test_prof_names_a_function_after_its_class_or_module() -> None:
    """`prof` names a function as torchelastic does, whose tests call this function."""
    assert api._get_metric_name(plain) == f"{__name__.rpartition('.')[2]}.plain"
    assert api._get_metric_name(Worker().work) == "Worker.work"
    assert api._get_metric_name(metrics.prof(group="g")) == "prof.<locals>.wrap"


def test_a_replaced_get_stream_gets_all_values(monkeypatch: pytest.MonkeyPatch, recorded: Recorded) -> None:
    """A replaced `getStream` gets all values: torchelastic's tests replace it to configure nothing."""
    keeper, configured = Keeper(), Keeper()
    metrics.configure(configured)
    stream = metrics.MetricStream("replaced", keeper)
    with monkeypatch.context() as replaced:
        replaced.setattr("telemetry.compat.torchelastic.metrics.api.getStream", lambda group: stream)
        Worker().work()
        metrics.put_metric("te.alive", 1)
        with pytest.warns(FutureWarning):
            metrics.publish_metric("g", "te.old", 2)
    metrics.put_metric("te.after", 3)
    assert keeper.names == ["Worker.work.success", "Worker.work.duration.ms", "te.alive", "te.old"]
    assert {data.group_name for data in keeper.got} == {"replaced"}
    assert configured.names == ["te.after"]
    assert recorded()["series", "te.alive", "replaced"] == [1]


# --- the samples of torchelastic's page ----------------------------------------------------------

MEASURE = """
import time
import torchelastic.metrics as metrics

def my_method():
    ms = metrics.getStream(group="my_app")
    start = time.time()
    calculate()
    end = time.time()
    ms.add_value("calculate_latency", int(end - start))
"""
PRINT = """
import torchelastic.metrics as metrics

metrics.configure(metrics.ConsoleMetricHandler(), group = "torchelastic")
metrics.configure(metrics.ConsoleMetricHandler(), group = "my_app")
"""
OWN_HANDLER = """
import torchelastic.metrics as metrics

class StdoutMetricHandler(metrics.MetricHandler):
   def emit(self, metric_data):
       print(
          f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}"
       )

metrics.configure(StdoutMetricHandler(), group="my_app")
"""


@pytest.mark.parametrize("sink", [PRINT, OWN_HANDLER])
def test_the_samples_run_with_another_import(
    sink: str, recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value is printed as the page shows it, and recorded in the run."""
    names: dict[str, Any] = {"calculate": lambda: None}
    for sample in (sink, MEASURE):
        exec(sample.replace("torchelastic.metrics", "telemetry.compat.torchelastic.metrics"), names)
    names["my_method"]()
    metrics.put_metric("checkpoint.write_latency_ms", 12)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\[\d+\.\d+\]\[my_app\]: calculate_latency=0", lines[0])
    platform = r"\[\d+\.\d+\]\[torchelastic\]: checkpoint.write_latency_ms=12"
    assert [bool(re.fullmatch(platform, line)) for line in lines[1:]] == [True] * (sink is PRINT)
    values = recorded()
    assert values["series", "calculate_latency", "my_app"] == [0]
    assert values["series", "checkpoint.write_latency_ms", "torchelastic"] == [12]


def test_documented_calls_work_by_name_and_by_position(keeper: Keeper) -> None:
    """Each argument has the name that it has in torchelastic."""
    metrics.configure(handler=keeper, group="g")
    metrics.configure(keeper, "g")
    for stream in (metrics.getStream("g"), metrics.getStream(group="g")):
        stream.add_value("a", 1)
        stream.add_value(metric_name="a", metric_value=1)
    metrics.put_metric("a", 1, "g")
    metrics.put_metric(metric_name="a", metric_value=1, metric_group="g")
    for made in (metrics.MetricStream("g", keeper), metrics.MetricStream(group_name="g", handler=keeper)):
        made.add_value("a", 1)
    with pytest.warns(FutureWarning):
        metrics.publish_metric("g", "a", 1)
    with pytest.warns(FutureWarning):
        metrics.publish_metric(metric_group="g", metric_name="a", metric_value=1)
    assert keeper.emitted == [("g", "a", 1)] * 10
    keeper.got.clear()
    keeper.emit(metric_data=metrics.MetricData(1.0, "g", "b", 2))
    for profiled in (metrics.prof(plain, "g"), metrics.prof(fn=plain, group="g"), metrics.prof(group="g")(plain)):
        profiled()
    assert len(keeper.got) == 1 + 3 * 4  # `plain` puts two of its own
    seconds = time.time()
    assert metrics.get_elapsed_time_ms(seconds) <= metrics.get_elapsed_time_ms(start_time_in_seconds=seconds)
    assert metrics.MetricsConfig(params={"g": "null"}).params == metrics.MetricsConfig({"g": "null"}).params
    metrics.initialize_metrics(cfg=metrics.MetricsConfig())
    metrics.initialize_metrics(metrics.MetricsConfig())


def test_the_interface_is_also_under_api() -> None:
    """The names are in `api`, where torch has `MetricStream`, and in the package, too."""
    assert api.__all__ == metrics.__all__ == package.__all__
    assert all(getattr(api, name) is getattr(metrics, name) for name in metrics.__all__)
    assert all(getattr(package, name) is getattr(metrics, name) for name in metrics.__all__)


def test_metric_data_is_a_named_tuple() -> None:
    """Metric data is a named tuple for pickle and JSON, too."""
    data = metrics.MetricData(timestamp=1.5, group_name="g", name="n", value=2)
    assert tuple(data) == (1.5, "g", "n", 2)
    assert data._fields == ("timestamp", "group_name", "name", "value")
    assert pickle.loads(pickle.dumps(data)) == data
    assert json.dumps(data) == '[1.5, "g", "n", 2]'


def test_a_configuration_has_params() -> None:
    """A configuration without params has an empty mapping."""
    assert metrics.MetricsConfig().params == {}
    assert metrics.MetricsConfig({"a": "null"}).params == {"a": "null"}


def test_a_handler_must_have_emit() -> None:
    """The error comes when it is made."""
    with pytest.raises(TypeError, match="abstract"):
        metrics.MetricHandler()  # type: ignore[abstract]
