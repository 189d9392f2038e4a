"""The client of Relax's metrics service over HTTP: requests, answers, and a service in trouble."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import pytest
from tests.ports import free_port
from tests.unit.compat.relax_service import Received, RelaxService, Reply

from telemetry.client import user_warnings
from telemetry.client.signal_safe import LivingObjects
from telemetry.compat.relax import MetricsClient, http, values
from telemetry.compat.relax.http import TOKEN_VARIABLE
from telemetry.errors import UsageError

LONG_S = 60.0
Eventually = Callable[[Callable[[], object]], None]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin each test as a new process does, and leave no queue to it that exit would wait for."""
    monkeypatch.setattr(user_warnings, "_reported", set())
    monkeypatch.setattr(http, "_TRANSPORTS", LivingObjects())
    yield
    for each in http._TRANSPORTS.living():
        each.close(0.0)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    return lambda: "\n".join(each.getMessage() for each in caplog.records if each.name == "telemetry.client")


@pytest.fixture
def service() -> Iterator[RelaxService]:
    with RelaxService() as made:
        yield made


def with_status(status: int, body: Any = None, **headers: str) -> Callable[[Received], Reply]:
    return lambda request: Reply(status, {} if body is None else body, headers)


@contextmanager
def answered(client: MetricsClient, service: RelaxService) -> Iterator[None]:
    """Let a block queue values, and wait until the service has answered them all."""
    yield
    client._transport.close(LONG_S)  # type: ignore[union-attr]


# --- requests ----------------------------------------------------------------------------------------


def test_a_step_is_a_batch_and_a_report(service: RelaxService) -> None:
    """The answer of the service is returned as it is, over one connection."""
    client = MetricsClient(service.url + "/", report_timeout_s=LONG_S)
    assert client.service_url == service.url
    assert client.log_metric(1, "loss", 0.5)
    assert client.log_metrics_batch(1, {"lr": 3, "loss": 0.25})
    assert service.requests == []
    assert client.report_step(1)["results"] == {"tensorboard": "success"}
    assert client.report_step(2)["status"] == "success"
    assert [(each.path, each.body) for each in service.requests] == [
        ("/metrics/log_metrics_batch", {"step": 1, "metrics": {"loss": 0.25, "lr": 3.0}, "tags": None}),
        ("/metrics/report_step", {"step": 1, "wait_s": 0}),
        ("/metrics/report_step", {"step": 2, "wait_s": 0}),
    ]
    assert len({each.connection for each in service.requests}) == 1


def test_an_immediate_value_is_sent_without_waiting(service: RelaxService) -> None:
    """A single value is `log_metric`, and an axis other than `step` is named."""
    client = MetricsClient(service.url)
    service.open.clear()
    assert client.log_metric(3, "x", 1.0, tags={"rank": "0"}, immediate=True)
    assert client.log_metrics_batch(3, {"x": 1.0, "y": 2.0}, immediate=True, axis="train")
    assert client.clear_metrics(9)
    service.open.set()
    with answered(client, service):
        pass
    assert [(each.path.rpartition("/")[2], each.body) for each in service.requests] == [
        ("log_metric", {"step": 3, "metric_name": "x", "metric_value": 1.0, "tags": {"rank": "0"}}),
        ("log_metrics_batch", {"step": 3, "metrics": {"x": 1.0, "y": 2.0}, "tags": None, "axis": "train"}),
        ("clear_metrics", {"step": 9}),
    ]


def test_values_of_all_kinds_travel(service: RelaxService) -> None:
    """Values that are not finite become null, arrays lists, and dictionaries flat. Events stay events."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    event = {"name": "forward", "ph": "B", "ts": 5, "args": {"rank": numpy.int64(3), "note": object}}
    client.log_metrics_batch(
        1,
        {
            "nan": math.nan,
            "inf": numpy.float32("inf"),
            "flag": True,
            "text": "hello",
            "array": numpy.array([[1.0, math.nan], [2.0, 3.0]]),
            "time": {"a": 1, "b": {"c": 2}},
            "bad": object(),
            "none": None,
        },
    )
    client.log_metric(1, "timeline", [event])
    client.log_metric(1, "timeline", [event | {"ph": "E", "ts": 9}])
    client.log_metric(1, "tagged", 1.0, tags={"b": "2", "a": "1"})
    client.report_step(1)
    metrics: dict[str, Any] = service.of("log_metrics_batch")[0]["metrics"]
    assert [(each["ph"], each["ts"], each["args"]["rank"]) for each in metrics.pop("timeline")] == [
        ("B", 5, 3.0),
        ("E", 9, 3.0),
    ]
    assert metrics == {
        "nan": None,
        "inf": None,
        "flag": 1.0,
        "text": "hello",
        "array": [1.0, 2.0, 3.0],
        "time/a": 1.0,
        "time/b/c": 2.0,
    }
    tagged = service.of("log_metrics_batch")[1]
    assert (tagged["metrics"], tagged["tags"]) == ({"tagged": 1.0}, {"a": "1", "b": "2"})


def test_a_large_tensor_is_refused(service: RelaxService, said: Callable[[], str]) -> None:
    """The text of a large tensor would be many megabytes. The message asks for a part of it."""
    client = MetricsClient(service.url)
    assert client.log_metric(0, "weights", numpy.zeros(values.LIST_NUMBERS + 1)) is False
    assert client.log_metric(0, "flags", [0.5] * (values.LIST_NUMBERS + 1)) is False
    assert client.log_metric(0, "endless", itertools.repeat(0.5)) is False
    assert client.log_metric(0, "weights", numpy.zeros(values.LIST_NUMBERS))
    assert "'weights' is not recorded: it has more than 65,536 numbers" in said()


def test_the_token_of_the_environment_is_sent(service: RelaxService, monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests have it, health included."""
    monkeypatch.setenv(TOKEN_VARIABLE, "s3cret")
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    client.report_step(0)
    client.health_check()
    assert {each.token for each in service.requests} == {"Bearer s3cret"}


@pytest.mark.parametrize("url", ["localhost:8000/metrics", "ftp://host/metrics", "http://", "http://a:b:c/", "x"])
def test_an_address_that_is_none_raises(url: str) -> None:
    """The message shows an address that is one."""
    with pytest.raises(UsageError, match="http://localhost:8000/metrics"):
        MetricsClient(url)


def test_health_is_the_answer_of_the_service(service: RelaxService) -> None:
    """A service that is away, or that answers otherwise, is an error with a reason."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    service.answer = with_status(200, {"status": "healthy", "service": "metrics", "adapters": ["tensorboard"]})
    assert client.health_check()["adapters"] == ["tensorboard"]
    service.answer = with_status(401, {"status": "error", "message": "a token is needed"})
    assert client.health_check() == {"status": "error", "message": "a token is needed"}
    away = MetricsClient(f"http://127.0.0.1:{free_port()}/metrics").health_check()
    assert away["status"] == "error"
    assert "can't be reached" in away["message"]


# --- answers -----------------------------------------------------------------------------------------


def test_a_refusal_is_final_and_told_once(service: RelaxService, said: Callable[[], str]) -> None:
    """The message of the service is printed."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    service.answer = with_status(422, {"status": "error", "message": "body.metrics.x: too odd"})
    for step in range(2):
        client.log_metrics_batch(step, {"x": 1.0, "y": 2.0})
        assert client.report_step(step) == {"status": "error", "message": "body.metrics.x: too odd"}
    assert len(service.of("log_metrics_batch")) == 2
    assert said().count("refused log_metrics_batch (HTTP 422): body.metrics.x: too odd") == 1


def test_an_error_with_status_200_is_a_refusal(service: RelaxService, said: Callable[[], str]) -> None:
    """Relax's own service answers errors that way."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    service.answer = with_status(200, {"status": "error", "message": "boom"})
    client.log_metric(0, "x", 1.0)
    assert client.report_step(0) == {"status": "error", "message": "boom"}
    assert "boom" in said()


def test_the_end_of_the_run_is_told(service: RelaxService, said: Callable[[], str]) -> None:
    """The report is an error, and the queue is empty."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    service.answer = with_status(410, {"status": "error", "message": "the run is over"})
    client.log_metric(0, "x", 1.0)
    assert client.report_step(0) == {"status": "error", "message": "the run is over"}
    assert said().count("the run is over") == 1


def test_refused_values_are_told_by_name(service: RelaxService, said: Callable[[], str]) -> None:
    """The step is reported nevertheless: a value costs only itself."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    outcomes = {"x": "not recorded: too long", "y": "recorded", "z": "recorded, but for z/a: too long"}
    service.answer = with_status(200, {"status": "success", "outcomes": outcomes, "results": {}})
    client.log_metrics_batch(0, {"x": "text", "y": 1.0})
    assert client.report_step(0)["status"] == "success"
    assert said().count(f"{service.url}: 'x': not recorded: too long") == 1
    assert "'z': recorded, but for z/a" in said()
    assert "'y'" not in said()


@pytest.mark.parametrize("body", [b"", b"<html>proxy</html>", b"[1]", b"\xff{"])
def test_an_answer_that_is_no_object_is_an_error(service: RelaxService, body: bytes) -> None:
    """A proxy may answer in place of the service."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    service.answer = lambda request: Reply(404, body)
    answer = client.report_step(0)
    assert answer["status"] == "error"
    assert answer["message"].startswith("HTTP 404")


def test_an_answer_without_fields_ends_the_wait(service: RelaxService) -> None:
    """A report returns as soon as the service has answered, whatever the answer says."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    service.answer = with_status(200)
    begun = time.monotonic()
    assert client.report_step(0) == {}
    assert time.monotonic() - begun < LONG_S / 2


def test_pending_is_returned_as_it_is(service: RelaxService) -> None:
    """202 means that the service has the step, and that a backend does not have it yet."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    pending = {"status": "pending", "message": "…", "results": {"wandb": "pending: 3 steps behind"}}
    service.answer = with_status(202, pending)
    assert client.report_step(0) == pending


# --- a service in trouble ----------------------------------------------------------------------------


def test_a_service_that_is_busy_gets_everything_later(service: RelaxService, eventually: Eventually) -> None:
    """503 is tried again after Retry-After, in order, and no report waits for it."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    service.answer = with_status(503, {"status": "error", "message": "busy"}, **{"Retry-After": "0"})
    begun = time.monotonic()
    for step in range(3):
        client.log_metric(step, "x", float(step))
        assert client.report_step(step)["status"] == "pending"
    assert time.monotonic() - begun < LONG_S / 2
    service.answer = lambda request: Reply()
    with answered(client, service):
        pass
    assert [body["step"] for body in service.of("report_step")] == [0, 1, 2]
    kept = [body["step"] for body in service.of("log_metric")]
    assert sorted(set(kept)) == [0, 1, 2]
    assert kept == sorted(kept)


@pytest.mark.slow
def test_retry_after_is_honoured(service: RelaxService, eventually: Eventually) -> None:
    """The service is not asked again before that time."""
    client = MetricsClient(service.url)
    service.answer = with_status(503, {}, **{"Retry-After": "1.5"})
    client.log_metric(0, "x", 1.0, immediate=True)
    eventually(lambda: len(service.requests) == 1)
    begun = time.monotonic()
    service.answer = lambda request: Reply()
    eventually(lambda: len(service.requests) == 2)
    assert time.monotonic() - begun > 1.0


def test_a_service_that_comes_back_gets_what_waited(eventually: Eventually, said: Callable[[], str]) -> None:
    """Reports are pending at once while nothing listens."""
    port = free_port()
    client = MetricsClient(f"http://127.0.0.1:{port}/metrics", report_timeout_s=LONG_S)
    begun = time.monotonic()
    for step in range(3):
        client.log_metric(step, "x", 1.0)
        answer = client.report_step(step)
        assert (answer["status"], answer["results"]) == ("pending", {})
        assert "which does not answer" in answer["message"]
    assert time.monotonic() - begun < LONG_S / 2
    with RelaxService(port) as service:
        with answered(client, service):
            pass
        assert [body["step"] for body in service.of("report_step")] == [0, 1, 2]
        assert client.report_step(3)["status"] == "success"
    assert said().count("can't be reached") == 1


def test_a_service_that_hangs_costs_one_wait(
    service: RelaxService, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """The first report waits for its timeout, and the others don't wait. Everything arrives in the end."""
    monkeypatch.setattr(http, "REQUEST_S", 0.5)
    client = MetricsClient(service.url, report_timeout_s=0.4)
    service.open.clear()
    times = []
    for step in range(20):
        client.log_metric(step, "x", 1.0)
        begun = time.monotonic()
        assert client.report_step(step)["status"] == "pending"
        times.append(time.monotonic() - begun)
    assert times[0] >= 0.3
    assert sorted(times)[-2] < 0.3
    service.open.set()
    with answered(client, service):
        pass
    reported = [body["step"] for body in service.of("report_step")]
    assert sorted(set(reported)) == list(range(20))


def test_a_request_that_breaks_the_service_is_given_up(
    service: RelaxService, monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]
) -> None:
    """A request that breaks the service is given up after five answers of 500. The requests behind it go on."""
    monkeypatch.setattr(http, "_RETRY_S", 0.01)
    client = MetricsClient(service.url, report_timeout_s=LONG_S)

    def answer(request: Received) -> Reply:
        return Reply(500, b"oops") if request.body.get("metric_name") == "poison" else Reply()

    service.answer = answer
    client.log_metric(0, "poison", 1.0, immediate=True)
    client.log_metric(0, "good", 1.0, immediate=True)
    with answered(client, service):
        pass
    names = [body["metric_name"] for body in service.of("log_metric")]
    assert names == ["poison"] * 5 + ["good"]
    assert "HTTP 500: oops" in said()


def test_a_backend_that_failed_for_good_holds_up_nothing(service: RelaxService, said: Callable[[], str]) -> None:
    """A gateway answers 502 for it. Each report is sent once, and the next steps follow."""
    failed = {"status": "error", "message": "a backend will not have it", "results": {"wandb": "error: no key"}}
    service.answer = lambda request: Reply(502, failed) if request.path.endswith("report_step") else Reply()
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    for step in range(3):
        client.log_metric(step, "loss", 0.5)
        assert client.report_step(step) == failed
    assert [body["step"] for body in service.of("report_step")] == [0, 1, 2]
    assert [body["step"] for body in service.of("log_metric")] == [0, 1, 2]
    assert said().count("a backend will not have it") == 1


def test_the_502_of_a_proxy_is_tried_again(service: RelaxService, eventually: Eventually) -> None:
    """The 502 of a proxy is tried again, since it only says that the service is away."""
    service.answer = with_status(502, b"<html>Bad Gateway</html>")
    client = MetricsClient(service.url, report_timeout_s=0.01)
    assert client.report_step(1)["status"] == "pending"
    eventually(lambda: len(service.of("report_step")) > 1)
    service.answer = lambda request: Reply()
    client._transport.close(LONG_S)  # type: ignore[union-attr]
    assert len(service.of("report_step")) > 2


class _Hostile:
    """An object that can be neither a number nor a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


_LOOP: list[Any] = []
_LOOP.append(_LOOP)


@pytest.mark.parametrize("bad", ["\ud800", _Hostile(), _LOOP], ids=["surrogate", "hostile", "loop"])
@pytest.mark.parametrize("immediate", [True, False])
def test_what_json_can_not_hold_costs_only_itself(
    service: RelaxService, said: Callable[[], str], bad: Any, immediate: bool
) -> None:
    """A value that JSON can't hold raises in no call, and the values beside it arrive."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    good = {"name": "rollout", "ph": "X", "ts": 1, "dur": 1}
    assert client.log_metrics_batch(
        1, {"loss": 0.5, "timeline": [{**good, "args": {"x": bad}}, good]}, immediate=immediate
    )
    assert client.log_metric(1, "lonely", {**good, "args": {"x": bad}}, immediate=immediate) is not immediate
    assert client.log_metric(1, "tagged", 1.0, tags={"a": "\ud800"}, immediate=immediate) is not immediate
    assert client.report_step(1)["status"] == "success"
    [batch] = service.of("log_metrics_batch")
    assert batch["metrics"] == {"loss": 0.5, "timeline": [good]}
    assert service.of("log_metric") == []
    assert said().count("is not recorded") == 3


def test_a_full_queue_refuses(
    service: RelaxService, monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]
) -> None:
    """A full queue refuses by number and by bytes. A step goes in as a whole or not at all."""
    monkeypatch.setattr(http, "REQUESTS", 5)
    client = MetricsClient(service.url, report_timeout_s=0.1)
    service.open.clear()
    taken = [client.log_metric(0, f"x{number}", 1.0, immediate=True) for number in range(8)]
    assert taken == [True] * 5 + [False] * 3
    client.log_metric(1, "x", 1.0)
    answer = client.report_step(1)
    assert (answer["status"], "is full" in answer["message"]) == ("error", True)
    monkeypatch.setattr(http, "REQUESTS", 1_000)
    monkeypatch.setattr(http, "BYTES", 2_000)
    assert client.log_metric(0, "text", "x" * 4_000, immediate=True) is False
    assert client.log_metric(0, "text", "x", immediate=True) is True
    assert said().count("is full") == 1
    service.open.set()
    client._transport.close(LONG_S)  # type: ignore[union-attr]
    assert "5 values for" in said()
    assert "were dropped in all" in said()


def test_what_is_left_at_the_end_is_counted(service: RelaxService, said: Callable[[], str]) -> None:
    """The end of the program waits for a bounded time."""
    client = MetricsClient(service.url, report_timeout_s=0.0)
    service.open.clear()
    client.log_metrics_batch(0, {"x": 1.0, "y": 2.0})
    client.report_step(0)
    begun = time.monotonic()
    client._transport.close(0.2)  # type: ignore[union-attr]
    assert time.monotonic() - begun < LONG_S / 2
    assert "2 values and 1 report of a step did not reach" in said()
    service.open.set()


def test_many_threads_share_a_connection(service: RelaxService) -> None:
    """Eight threads report their steps, and each value arrives."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)

    def work(thread: int) -> None:
        for step in range(20):
            client.log_metrics_batch(step, {f"t{thread}": 1.0, f"u{thread}": 2.0}, immediate=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with answered(client, service):
        pass
    assert len(service.of("log_metrics_batch")) == 160
    assert len({each.connection for each in service.requests}) == 1


def test_a_connection_that_was_closed_is_opened_again(service: RelaxService) -> None:
    """A service may close a connection that is idle, and the next request does not fail by that."""
    client = MetricsClient(service.url, report_timeout_s=LONG_S)
    service.answer = lambda request: Reply(headers={"Connection": "close"})
    assert client.report_step(0)["status"] == "success"
    service.answer = lambda request: Reply()
    assert client.report_step(1)["status"] == "success"
    assert client.report_step(2)["status"] == "success"
    assert len({each.connection for each in service.requests}) == 2
