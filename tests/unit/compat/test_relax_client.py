"""The client of Relax's metrics service, with the run of the process behind it."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.unit.compat.relax_service import RelaxService, Reply

from telemetry.client import user_warnings
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.compat.relax import (
    TIMELINE_EVENTS_KEY,
    MetricsClient,
    Timer,
    get_metrics_client,
    serve_url,
)
from telemetry.compat.relax import client as client_module
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.events import Axis, Bins, Note, Scalars, Span, StepClear, StepEnd

Records = Callable[[], list[Any]]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test as a new process does."""
    monkeypatch.delenv(ENDPOINT_VARIABLE, raising=False)
    monkeypatch.setattr(user_warnings, "_reported", set())
    monkeypatch.setattr(client_module, "_CLIENT", [])


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [record.getMessage() for record in caplog.records if record.name == "telemetry.client"]


@pytest.fixture
def records(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Records]:
    """A run to join, and the function that ends this process's part and returns its records."""
    monkeypatch.setenv("TELEMETRY_EMIT__FLUSH_MS", "2")
    with FakeAggregator(short_dir) as aggregator:
        monkeypatch.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)

        def end() -> list[Any]:
            PROCESS.finish(20.0)
            [producer] = aggregator.heard.values()
            return list(producer.records)

        yield end
        PROCESS.finish(5.0)
        PROCESS.reopen()
        PROCESS._late.take()


def of(found: list[Any], kind: type[Any]) -> list[Any]:
    return [record for record in found if isinstance(record, kind)]


def values(found: list[Any]) -> dict[tuple[str, int], dict[str, float | None]]:
    """Values by axis and step."""
    merged: dict[tuple[str, int], dict[str, float | None]] = {}
    for each in of(found, Scalars):
        merged.setdefault((each.axis, each.step), {}).update(each.values)
    return merged


# --- reporting ---------------------------------------------------------------------------------------


def test_values_wait_until_their_step_is_reported(records: Records) -> None:
    """A reported step has the newest value of each name, on an axis that closes by reports."""
    client = MetricsClient()
    assert client.log_metric(1, "loss", 0.5)
    assert client.log_metric(1, "loss", 0.25)
    assert client.log_metrics_batch(2, {"loss": 0.1, "lr": 3})
    assert (client.get_buffered_metrics_count(), client.get_buffered_metrics_count(1)) == (4, 2)
    answer = client.report_step(1)
    assert answer == {"status": "success", "message": "Reported 1 metrics for step 1", "results": {}}
    assert client.get_buffered_metrics_count() == 2
    found = records()
    assert values(found) == {("step", 1): {"loss": 0.25}}
    [axis] = of(found, Axis)
    assert (axis.name, axis.reduce, axis.closing) == ("step", "last", "reported")
    assert [(end.axis, end.step) for end in of(found, StepEnd)] == [("step", 1)]


def test_immediate_values_are_recorded_at_once_and_count_in_the_report(records: Records) -> None:
    """The report of the step names all values that this client logged for it."""
    client = MetricsClient()
    assert client.log_metric(4, "a", 1.0, immediate=True)
    assert client.log_metrics_batch(4, {"b": 2.0, "c": 3.0}, immediate=True)
    assert client.get_buffered_metrics_count() == 0
    assert client.open_steps == {("step", 4)}
    client.log_metric(4, "d", 4.0)
    assert client.report_step(4)["message"] == "Reported 4 metrics for step 4"
    assert client.report_step(4)["message"] == "Reported 0 metrics for step 4"
    assert client.open_steps == set()
    assert values(records()) == {("step", 4): {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}}


def test_axes_are_kept_apart(records: Records) -> None:
    """Each axis is declared once, and a report closes a step of one axis."""
    client = MetricsClient()
    for step in range(2):
        client.log_metric(step, "loss", 1.0, axis="train")
        client.log_metric(step, "reward", 2.0, axis="rollout")
    client.report_step(0, axis="train")
    client.report_step(1, axis="rollout")
    found = records()
    assert sorted(axis.name for axis in of(found, Axis)) == ["rollout", "train"]
    assert values(found) == {("train", 0): {"loss": 1.0}, ("rollout", 1): {"reward": 2.0}}


def test_without_a_run_a_report_says_so() -> None:
    """Values are dropped, and the message names the command to use."""
    client = MetricsClient()
    assert client.log_metric(1, "loss", 0.5)
    answer = client.report_step(1)
    assert answer == {"status": "error", "message": "no run: start one with `telemetry run -- CMD`"}
    assert client.get_buffered_metrics_count() == 0
    assert client.log_metric(1, "loss", 0.5, immediate=True) is False
    assert client.clear_metrics() is False
    assert client.health_check() == answer


def test_after_the_run_a_report_is_an_error(records: Records) -> None:
    """The process's part of the run has ended, so its values are in no result."""
    client = MetricsClient()
    client.report_step(0)
    records()
    client.log_metric(1, "loss", 0.5)
    assert client.report_step(1) == {"status": "error", "message": "the run of this process has ended"}


def test_a_step_can_be_forgotten(records: Records) -> None:
    """`clear_buffer` forgets held values, and `clear_metrics` those that are recorded but not reported."""
    client = MetricsClient()
    for step in (1, 2, 3):
        client.log_metric(step, "a", 1.0)
    client.clear_buffer(2)
    assert (client.get_buffered_metrics_count(2), client.get_buffered_metrics_count()) == (0, 2)
    client.clear_buffer()
    assert client.get_buffered_metrics_count() == 0
    client.log_metric(5, "a", 1.0, immediate=True)
    assert client.clear_metrics(5)
    assert client.open_steps == set()
    assert client.clear_metrics()
    assert [(each.axis, each.step) for each in of(records(), StepClear)] == [("step", 5), ("step", None)]


def test_health_names_the_backends_of_the_run(records: Records) -> None:
    """The aggregator is asked; one that is gone makes the answer an error."""
    assert MetricsClient().health_check() == {
        "status": "healthy",
        "service": "metrics",
        "adapters": [],
        "wandb_enabled": False,
    }


# --- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (3, 3.0),
        (True, 1.0),
        (numpy.float32(0.5), 0.5),
        (numpy.int64(7), 7.0),
        (numpy.array([[2.5]]), 2.5),
        (float("nan"), None),
        (-math.inf, None),
        (numpy.float64("nan"), None),
        (10**400, None),
    ],
)
def test_numbers_of_all_kinds_are_numbers(records: Records, value: Any, recorded: float | None) -> None:
    """A number that is not finite is kept as such."""
    client = MetricsClient()
    assert client.log_metric(0, "x", value)
    client.report_step(0)
    assert values(records()) == {("step", 0): {"x": recorded}}


def test_texts_lists_and_dictionaries_find_their_places(records: Records) -> None:
    """A text is a text of the step, a list a distribution, and a dictionary several values."""
    client = MetricsClient()
    assert client.log_metrics_batch(
        8,
        {
            "sample": "The quick brown fox",
            "lengths": [1, 2, 2.5],
            "array": numpy.arange(1_000.0).reshape(10, 100),
            "time": {"forward": 1.5, "kind": "fast", "inner": {"gemm": numpy.float32(0.5)}, "bad": object()},
        },
    )
    client.report_step(8)
    found = records()
    assert values(found) == {("step", 8): {"time/forward": 1.5, "time/inner/gemm": 0.5}}
    notes = {note.name: (note.text, note.axis, note.step) for note in of(found, Note)}
    assert notes == {"sample": ("The quick brown fox", "step", 8), "time/kind": ("fast", "step", 8)}
    assert {each.name: (sum(each.counts), each.step) for each in of(found, Bins)} == {
        "lengths": (3, 8),
        "array": (1_000, 8),
    }


def test_a_list_is_counted_at_the_call(records: Records) -> None:
    """Later changes of the list have no effect."""
    client = MetricsClient()
    numbers = [1.0, 2.0]
    client.log_metric(0, "x", numbers)
    numbers.append(100.0)
    client.report_step(0)
    [bins] = of(records(), Bins)
    assert (sum(bins.counts), bins.edges[-1]) == (2, 2.0)


@pytest.mark.parametrize(
    "value", [object(), None, b"bytes", ["a", "b"], [{"a": 1}], [1.0, None], 1j, numpy.array([], float)]
)
def test_a_value_that_nothing_fits_costs_only_itself(
    records: Records, said: Callable[[], list[str]], value: Any
) -> None:
    """A value that does not fit is named once, and its neighbours are kept."""
    client = MetricsClient()
    assert client.log_metric(0, "bad", value) is False
    assert client.log_metrics_batch(0, {"good": 1.0, "bad": value})
    client.report_step(0)
    assert values(records()) == {("step", 0): {"good": 1.0}}
    assert len([line for line in said() if "'bad' is not recorded" in line]) == 1
    assert PROCESS.recorders.refused.total == 2


@pytest.mark.parametrize("name", ["", 7, None, ["a"], "n" * 300])
def test_a_name_that_is_none_costs_only_its_value(records: Records, name: Any) -> None:
    """The value is refused, and the client goes on."""
    client = MetricsClient()
    assert client.log_metric(0, name, 1.0) is False
    client.log_metric(0, "good", 1.0)
    client.report_step(0)
    assert values(records()) == {("step", 0): {"good": 1.0}}


@pytest.mark.parametrize("step", [numpy.int64(5), numpy.int32(5), 5.0, numpy.array(5)])
def test_any_integer_is_a_step(records: Records, step: Any) -> None:
    """Integers of numpy and floats without a fraction are the step 5."""
    client = MetricsClient()
    assert client.log_metric(step, "x", 1.0)
    assert client.get_buffered_metrics_count(5) == 1
    assert client.report_step(step)["message"] == "Reported 1 metrics for step 5"
    assert values(records()) == {("step", 5): {"x": 1.0}}


@pytest.mark.parametrize("step", [None, "5", 1.5, math.nan, 1 << 70, object()])
def test_what_is_no_step_is_refused(step: Any, said: Callable[[], list[str]]) -> None:
    """Each call says so by its result, and no call raises."""
    client = MetricsClient()
    assert client.log_metric(step, "x", 1.0) is False
    assert client.log_metrics_batch(step, {"x": 1.0}, immediate=True) is False
    assert client.report_step(step)["status"] == "error"
    assert client.get_buffered_metrics_count() == 0
    assert any("is not recorded" in line for line in said())


def test_tags_are_a_part_of_the_name(records: Records) -> None:
    """Two values of a name with other tags are two values, and a value without tags keeps its name."""
    client = MetricsClient()
    client.log_metric(0, "loss", 1.0, tags={"role": "actor", "rank": "0"})
    client.log_metric(0, "loss", 2.0, tags={"rank": "1", "role": "actor"})
    client.log_metrics_batch(0, {"loss": 3.0, "note": "x"}, tags={})
    client.log_metric(0, "note", "y", tags={"rank": "0"})
    assert client.report_step(0)["message"] == "Reported 5 metrics for step 0"
    found = records()
    assert values(found) == {
        ("step", 0): {"loss{rank=0,role=actor}": 1.0, "loss{rank=1,role=actor}": 2.0, "loss": 3.0}
    }
    assert {note.name: note.text for note in of(found, Note)} == {"note": "x", "note{rank=0}": "y"}


def test_begin_and_end_of_an_event_may_come_in_two_calls(records: Records) -> None:
    """Both are kept until the report, under one name, as a list or as a single dictionary."""
    client = MetricsClient()
    ts = time.time_ns() // 1_000
    begin = {"name": "forward_pass", "ph": "B", "ts": ts, "pid": 0, "tid": 0, "args": {"step": 100}}
    client.log_metric(step=100, metric_name="timeline", metric_value=[begin])
    client.log_metric(step=100, metric_name="timeline", metric_value=[begin | {"ph": "E", "ts": ts + 500}])
    one = {"name": "backward", "ph": "X", "ts": ts, "dur": 250}
    client.log_metric(step=100, metric_name="other", metric_value=one)
    client.log_metrics_batch(100, {TIMELINE_EVENTS_KEY: [one | {"name": "third"}], "empty": []})
    client.report_step(100)
    found = records()
    spans = {
        span.name: (round((span.end_ns - span.start_ns) / 1_000), span.labels["step"]) for span in of(found, Span)
    }
    assert spans == {"forward_pass": (500, "100"), "backward": (250, "100"), "third": (250, "100")}
    assert values(found) == {}


def test_events_of_timers_do_not_become_spans_twice(records: Records) -> None:
    """`log_record_and_clear` has recorded them, so the reserved key adds nothing."""
    client = MetricsClient()
    client.report_step(0)
    made = Timer()
    made.start("update")
    made.end("update")
    events = [event.to_trace_event() for event in made.log_record_and_clear(1)]
    client.log_metrics_batch(1, {TIMELINE_EVENTS_KEY: events, "loss": 1.0})
    client.report_step(1)
    assert [span.name for span in of(records(), Span)] == ["update"]


# --- bounds and threads ------------------------------------------------------------------------------


def test_the_buffer_is_bounded(monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]) -> None:
    """The oldest step goes, is counted, and is reported once."""
    monkeypatch.setattr(client_module, "VALUES", 10)
    client = MetricsClient()
    for step in range(8):
        client.log_metrics_batch(step, {"a": 1.0, "b": 2.0, "c": 3.0})
    assert client.get_buffered_metrics_count() == 9
    assert [client.get_buffered_metrics_count(step) for step in (4, 5, 7)] == [0, 3, 3]
    assert len([line for line in said() if "were dropped" in line]) == 1


def test_threads_may_share_a_client(records: Records) -> None:
    """No value is lost when eight threads share a client."""
    client = MetricsClient()

    def work(thread: int) -> None:
        for number in range(200):
            client.log_metric(number % 10, f"t{thread}/{number}", 1.0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert client.get_buffered_metrics_count() == 1_600
    answers = [client.report_step(step)["message"] for step in range(10)]
    assert answers == [f"Reported 160 metrics for step {step}" for step in range(10)]
    assert sum(map(len, values(records()).values())) == 1_600


def test_the_client_of_the_process_is_one() -> None:
    """A slash at the end makes no other client, and another URL does."""
    native = get_metrics_client()
    assert get_metrics_client() is native
    assert native.service_url == ""
    made = get_metrics_client("http://localhost:1/metrics")
    assert get_metrics_client("http://localhost:1/metrics/") is made
    assert made.service_url == "http://localhost:1/metrics"
    assert get_metrics_client() is not made


# --- without a run and without a URL -----------------------------------------------------------------

NOTHING = "nothing is recorded: this process has no run, and no metrics service answers at "


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[RelaxService]:
    """A healthy service at the default address."""
    with RelaxService() as found:
        found.answer = lambda request: (
            Reply(body={"status": "healthy", "service": "metrics"}) if request.path.endswith("/health") else Reply()
        )
        monkeypatch.setattr(serve_url, "_DEFAULT", found.url.removesuffix("/metrics"))
        yield found


def test_values_without_a_run_go_to_the_service_at_the_default_address(service: RelaxService) -> None:
    """Values without a run go to the service at the default address, as with the client of Relax."""
    client = MetricsClient()
    assert client.service_url == service.url
    client.log_metric(1, "loss", 0.5)
    assert client.report_step(1)["status"] == "success"
    assert client.log_metric(2, "loss", 0.25, immediate=True)
    assert client.end_step(2)["status"] == "pending"
    assert client.health_check()["status"] == "healthy"
    assert get_metrics_client() is get_metrics_client()
    assert service.of("log_metric")[0] == {"step": 1, "metric_name": "loss", "metric_value": 0.5, "tags": None}


def test_a_run_that_begins_later_wins(
    service: RelaxService, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients are often made at the import. What the client holds then goes into the run, lists included."""
    client = MetricsClient()
    client.log_metric(1, "loss", 0.5)
    client.log_metric(1, "lengths", [1.0, 2.0, 2.0])
    monkeypatch.setenv("TELEMETRY_EMIT__FLUSH_MS", "2")
    with FakeAggregator(short_dir) as aggregator:
        monkeypatch.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)
        assert client.report_step(1)["results"] == {}
        assert client.service_url == ""
        PROCESS.finish(20.0)
        [producer] = aggregator.heard.values()
        found = list(producer.records)
        PROCESS.reopen()
        PROCESS._late.take()
    assert values(found) == {("step", 1): {"loss": 0.5}}
    assert [sum(each.counts) for each in of(found, Bins)] == [3]
    assert not service.of("log_metrics_batch")


def test_a_service_that_begins_later_is_found_by_a_report(
    monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    """One line on stderr says that no value is recorded, until a report reaches the service."""
    monkeypatch.setattr(serve_url, "_DEFAULT", "http://127.0.0.1:9")
    for name in ("_LOOK_AGAIN_S", "_LOOK_SHARE"):
        monkeypatch.setattr(client_module, name, 0.0)
    client = MetricsClient()
    for step in range(3):
        assert client.log_metric(step, "loss", 0.5)
        assert client.report_step(step)["status"] == "error"
    assert not client.log_metric(3, "loss", 0.5, immediate=True)
    assert len(said()) == 1
    assert said()[0].startswith(f"telemetry: {NOTHING}http://127.0.0.1:9/metrics; start the program with")
    client.log_metric(4, "lengths", [1.0, 2.0])
    client.log_metric(4, "loss", 0.5)
    with RelaxService() as service:
        monkeypatch.setattr(serve_url, "_DEFAULT", service.url.removesuffix("/metrics"))
        service.answer = lambda request: Reply(body={"status": "healthy"})
        client.report_step(4)
        assert service.of("log_metric") == [{"step": 4, "metric_name": "loss", "metric_value": 0.5, "tags": None}]
    assert any("'lengths' is not recorded: it was counted" in line for line in said())


def test_what_answers_at_the_default_address_must_be_a_metrics_service(service: RelaxService) -> None:
    """Any program may listen there. It gets one question, and no value."""
    service.answer = lambda request: Reply(body={"status": "ok"})
    client = MetricsClient()
    client.log_metric(1, "loss", 0.5)
    assert client.report_step(1)["status"] == "error"
    assert [request.path for request in service.requests] == ["/metrics/health"]


def test_the_debug_log_says_where_values_go(service: RelaxService, caplog: pytest.LogCaptureFixture) -> None:
    """The debug log of a program that logs at the level DEBUG says where values go.

    Relax's guide uses `logging.basicConfig(level=logging.DEBUG)`.
    """
    caplog.set_level(logging.DEBUG)
    client = MetricsClient()
    client.log_metric(1, "loss", 0.5)
    client.report_step(1)
    lines = [record.getMessage() for record in caplog.records if record.name == "telemetry.compat.relax"]
    assert lines[0] == f"this process has no run, so its values go to {service.url}"
    assert f"POST {service.url}/log_metric: HTTP 200" in lines
    assert any(line.startswith("report of step 1 on the axis step: {'status': 'success'") for line in lines)
