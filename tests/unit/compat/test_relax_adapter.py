"""Relax's adapter, its tracking functions, and the address of the service."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy
import pytest
from tests.unit.compat.relax_service import RelaxService, Reply

from telemetry.client import run as run_module
from telemetry.client import user_warnings
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.signal_safe import LivingObjects
from telemetry.compat import relax
from telemetry.compat.relax import (
    MetricsServiceAdapter,
    Timer,
    http,
    metrics_service_adapter,
    serve_url,
    timeline,
    tracking_utils,
)
from telemetry.compat.relax import client as client_module
from telemetry.compat.relax.serve_url import GATEWAY_VARIABLE
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.events import Axis, Params, Scalars, Span, StepEnd

LONG_S = 60.0
Records = Callable[[], list[Any]]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin each test as a new process does."""
    for name in (ENDPOINT_VARIABLE, GATEWAY_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(user_warnings, "_reported", set())
    monkeypatch.setattr(client_module, "_CLIENT", [])
    monkeypatch.setattr(metrics_service_adapter, "_ADAPTER", [])
    Timer()._held.take()
    monkeypatch.setattr(http, "_TRANSPORTS", LivingObjects())
    yield
    for each in http._TRANSPORTS.living():
        each.close(0.0)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    return lambda: "\n".join(each.getMessage() for each in caplog.records if each.name == "telemetry.client")


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
        run_module._STARTER.run = None
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


def ends(found: list[Any]) -> list[tuple[str, int]]:
    return [(end.axis, end.step) for end in of(found, StepEnd)]


# --- the adapter -------------------------------------------------------------------------------------


def test_metrics_are_recorded_without_their_step_key(records: Records) -> None:
    """The step waits for `flush`, and the caller's dictionary stays as it is."""
    adapter = MetricsServiceAdapter(Namespace())
    metrics = {"step": 7, "train/loss": 0.5, "epoch": 2}
    assert adapter.log(metrics)
    assert metrics == {"step": 7, "train/loss": 0.5, "epoch": 2}
    assert adapter.log({"step": numpy.int64(8), "train/loss": 0.25}, "step")
    assert adapter.flush(7) is True
    found = records()
    assert values(found) == {
        ("step", 7): {"train/loss": 0.5, "epoch": 2.0},
        ("step", 8): {"train/loss": 0.25},
    }
    assert ends(found) == [("step", 7)]


def test_flush_without_a_step_reports_the_newest(records: Records) -> None:
    """`flush` without a step reports the newest one. Before any value is logged it has no effect."""
    adapter = MetricsServiceAdapter(Namespace())
    assert adapter.flush() is True
    adapter.log({"step": 3, "x": 1.0})
    adapter.log({"step": 2, "x": 1.0})
    assert adapter.flush() is True
    assert ends(records()) == [("step", 3)]


def test_each_role_has_an_axis(records: Records) -> None:
    """`flush` reports each of them where this adapter logged the step."""
    adapter = MetricsServiceAdapter(Namespace())
    adapter.log({"train/step": 4, "train/loss": 1.0}, "train/step")
    adapter.log({"rollout/step": 4, "rollout/reward": 2.0}, step_key="rollout/step")
    adapter.log({"eval/step": 5, "eval/accuracy": 3.0}, step_key="eval/step")
    adapter.log({"global": 4, "x": 4.0}, step_key="global")
    assert adapter.flush(4) is True
    found = records()
    assert values(found) == {
        ("train", 4): {"train/loss": 1.0},
        ("rollout", 4): {"rollout/reward": 2.0},
        ("eval", 5): {"eval/accuracy": 3.0},
        ("global", 4): {"x": 4.0},
    }
    assert sorted(ends(found)) == [("global", 4), ("rollout", 4), ("train", 4)]
    assert {axis.closing for axis in of(found, Axis)} == {"reported"}


def test_a_role_that_never_flushes_reports_at_its_next_step(records: Records) -> None:
    """A role without a flush reports at its next step.

    In Relax the trainer flushes for the rollout, which counts its own steps.
    """
    adapter = MetricsServiceAdapter(Namespace())
    for step in range(3):
        for name in ("a", "b"):
            adapter.log({"rollout/step": step, name: 1.0}, "rollout/step")
        adapter.log({"step": step, "loss": 1.0})
    assert ends(records()) == [("rollout", 0), ("rollout", 1)]


def test_metrics_without_a_step_are_refused(records: Records, said: Callable[[], str]) -> None:
    """The result says so, and each kind is named once."""
    adapter = MetricsServiceAdapter(Namespace())
    for _ in range(2):
        assert adapter.log({"loss": 1.0}) is False
        assert adapter.log({"step": "7", "loss": 1.0}) is False
        assert adapter.log({"step": 1.5, "loss": 1.0}) is False
        assert adapter.log(None) is False  # type: ignore[arg-type]
        assert adapter.flush("x") is False  # type: ignore[arg-type]
    assert adapter.log({"step": 7}) is True
    assert said().count("metrics without 'step' are not recorded") == 1


def test_direct_log_reports_at_once(records: Records) -> None:
    """The answer is that of the report."""
    adapter = MetricsServiceAdapter(Namespace())
    answer = adapter.direct_log(step=42, metrics={"a": 1.0, "b": 2.0})
    assert answer == {"status": "success", "message": "Reported 2 metrics for step 42", "results": {}}
    found = records()
    assert (values(found), ends(found)) == ({("step", 42): {"a": 1.0, "b": 2.0}}, [("step", 42)])


def test_timers_ride_along(records: Records) -> None:
    """Timers become spans of the step if there is a folder for the timeline. Without one they wait."""
    MetricsServiceAdapter(Namespace()).log({"step": 1, "x": 1.0})
    timers = Timer()
    timers.start("update")
    timers.end("update")
    MetricsServiceAdapter(Namespace(timeline_dump_dir=None)).log({"step": 2, "x": 1.0})
    MetricsServiceAdapter(Namespace(timeline_dump_dir="traces")).log({"step": 3})
    timers.start("save")
    timers.end("save")
    MetricsServiceAdapter(Namespace(timeline_dump_dir="traces")).direct_log(4, {"x": 1.0})
    assert [(span.name, span.labels["step"]) for span in of(records(), Span)] == [("update", "3"), ("save", "4")]


def test_without_a_run_the_adapter_uses_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers travel as events, and reports that wait are no failures."""
    with RelaxService() as service:
        service.answer = lambda request: Reply(body={"status": "healthy"} if request.body is None else {})
        monkeypatch.setenv(GATEWAY_VARIABLE, service.url.removesuffix("/metrics"))
        monkeypatch.setattr(PROCESS, "before_finish", [timeline._record_rest])
        adapter = MetricsServiceAdapter(Namespace(timeline_dump_dir="traces"))
        assert adapter.client.service_url == service.url
        timers = Timer()
        timers.start("update")
        timers.end("update")
        assert adapter.log({"train/step": 5, "loss": 1.0}, "train/step")
        assert adapter.flush(5) is True
        adapter.client._transport.close(LONG_S)  # type: ignore[union-attr]
        [batch] = service.of("log_metrics_batch")
        [event] = batch["metrics"].pop("__timeline_events__")
        assert (event["name"], event["ph"], event["args"]) == ("update", "X", {"step": 5})
        assert batch == {"step": 5, "metrics": {"loss": 1.0}, "tags": None, "axis": "train"}
        assert service.of("report_step") == [{"step": 5, "wait_s": 0, "axis": "train"}]


def test_a_service_that_is_away_is_told_and_flush_goes_on(
    monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]
) -> None:
    """Values wait in the queue, so a report that is pending is no failure."""
    monkeypatch.setenv(GATEWAY_VARIABLE, "http://127.0.0.1:9")
    adapter = MetricsServiceAdapter(Namespace())
    assert "the metrics service is not ready" in said()
    assert adapter.log({"step": 1, "x": 1.0}) is True
    assert adapter.flush(1) is True


# --- tracking ----------------------------------------------------------------------------------------


def test_with_the_service_a_step_waits_for_flush(records: Records) -> None:
    """The first call makes the adapter if `init_tracking` was not called."""
    args = Namespace(use_metrics_service=True)
    assert tracking_utils.log(args, {"step": 1, "x": 1.0}, "step") is True
    assert relax.flush_metrics(args, 1) is True
    assert relax.log_direct(args, 2, {"x": 2.0})["status"] == "success"
    found = records()
    assert values(found) == {("step", 1): {"x": 1.0}, ("step", 2): {"x": 2.0}}
    assert ends(found) == [("step", 1), ("step", 2)]


def test_the_old_way_ends_a_step_by_the_next(records: Records) -> None:
    """The axis is an ordinary one, so nothing is declared and nothing has to be reported."""
    args = Namespace(use_metrics_service=False)
    for step in range(2):
        assert relax.log(args, {"step": step, "x": float(step), "note": "hi"}, "step") is True
        assert relax.flush_metrics(args, step) is True
    assert relax.log(args, {"eval/step": 5, "eval/x": 5.0}, "eval/step") is True
    assert relax.log_direct(args, 3, {"x": 3.0}) is True
    assert relax.log(args, {"x": 1.0}, "step") is False
    assert relax.log(args, {"step": None, "x": 1.0}, "step") is False
    assert relax.log(args, {"step": 4, "x": object()}, "step") is False
    found = records()
    assert values(found) == {
        ("step", 0): {"x": 0.0},
        ("step", 1): {"x": 1.0},
        ("step", 3): {"x": 3.0},
        ("eval", 5): {"eval/x": 5.0},
    }
    assert (ends(found), of(found, Axis)) == ([], [])


def test_both_ways_in_one_process(records: Records) -> None:
    """A step of the old way on an axis that closes by reports is reported at once."""
    relax.MetricsClient().report_step(0)
    relax.log(Namespace(use_metrics_service=False), {"step": 1, "x": 1.0}, "step")
    assert ends(records()) == [("step", 0), ("step", 1)]


def test_init_joins_the_run_and_names_the_backends(records: Records, said: Callable[[], str]) -> None:
    """Settings are recorded without secrets, and the message has the words for `telemetry run`."""
    args = Namespace(
        use_metrics_service=True,
        use_tensorboard=True,
        save="out",
        use_wandb=True,
        wandb_project="mine",
        wandb_mode="offline",
        wandb_key="0123456789abcdef",
        notify_urls="mailto://user:pass@example.com",
        lr=0.1,
    )
    relax.init_tracking(args)
    assert relax.get_metrics_service_adapter() is relax.init_metrics_service_adapter(args)
    assert (
        "telemetry run --to 'tensorboard:logdir=out/tensorboard_log' --to 'wandb:project=mine,mode=offline' -- CMD"
        in said()
    )
    assert "notify_urls has no effect" in said()
    settings = {name: value for one in of(records(), Params) for name, value in one.values.items()}
    assert settings["lr"] == 0.1
    assert not {"wandb_key", "notify_urls"} & set(settings)
    assert "0123456789abcdef" not in said()


def test_a_secondary_process_without_a_run_says_so(said: Callable[[], str]) -> None:
    """A secondary process starts no run of its own, which would split the result."""
    relax.init_tracking(Namespace(use_metrics_service=False), primary=False, router_addr="http://x")
    assert f"{ENDPOINT_VARIABLE} is not set" in said()
    assert PROCESS.state == "idle"
    assert relax.log(Namespace(use_metrics_service=False), {"step": 1, "x": 1.0}, "step") is False


def test_the_metrics_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backends come from the health of the service, and the steps are those of this process."""
    with RelaxService() as service:
        health = {"status": "healthy", "adapters": ["tensorboard"], "wandb_enabled": True}
        service.answer = lambda request: Reply(body=health)
        monkeypatch.setenv(GATEWAY_VARIABLE, service.url.removesuffix("/metrics"))
        adapter = relax.init_metrics_service_adapter(Namespace())
        adapter.log({"step": 1, "x": 1.0})
        adapter.log({"step": 2, "x": 1.0})
        assert relax.get_service_metrics() == {
            "adapters": ["tensorboard"],
            "use_wandb": True,
            "buffered_steps": 2,
        }
    monkeypatch.setattr(metrics_service_adapter, "_ADAPTER", [])
    monkeypatch.setattr(client_module, "_CLIENT", [])
    assert relax.get_service_metrics() == {"adapters": [], "use_wandb": False, "buffered_steps": 0}


# --- the address -------------------------------------------------------------------------------------


def test_the_address_of_a_gateway_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of a gateway comes first. Without one, and without Ray Serve, the default of Ray Serve holds."""
    assert relax.get_serve_url() == "http://localhost:8000/metrics"
    assert relax.get_serve_url(route_prefix="rollout/") == "http://localhost:8000/rollout"
    assert relax.get_serve_url("/") == "http://localhost:8000"
    assert serve_url.find_serve_url() is None
    for url in ("http://host:81", "http://host:81/", "http://host:81/metrics"):
        monkeypatch.setenv(GATEWAY_VARIABLE, url)
        assert relax.get_serve_url() == "http://host:81/metrics"


def details(**changes: Any) -> dict[str, Any]:
    """Details of an instance of Ray Serve, in the form of Ray 2.60."""
    return {
        "http_options": {"host": "0.0.0.0", "port": 8123, "root_path": ""},
        "proxies": {
            "a": {"node_ip": "10.0.0.1", "status": "HEALTHY"},
            "b": {"node_ip": "10.0.0.2", "status": SimpleNamespace(value="HEALTHY")},
            "c": {"node_ip": "10.0.0.3", "status": "DRAINING"},
        },
        "applications": {"metrics": {"route_prefix": "/metrics"}, "other": {"route_prefix": None}},
    } | changes


def with_ray(monkeypatch: pytest.MonkeyPatch, found: Any, *, initialized: bool = True) -> None:
    """Put modules with the names that the look-up uses in the place of Ray's."""
    ray, serve, context = ModuleType("ray"), ModuleType("ray.serve"), ModuleType("ray.serve.context")
    ray.is_initialized = lambda: initialized  # type: ignore[attr-defined]
    ray.util = SimpleNamespace(get_node_ip_address=lambda: "10.0.0.2")  # type: ignore[attr-defined]

    def client(raise_if_no_controller_running: bool) -> Any:
        if isinstance(found, Exception):
            raise found
        return found if found is None else SimpleNamespace(get_serve_details=lambda: found)

    context._get_global_client = client  # type: ignore[attr-defined]
    for module in (ray, serve, context):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(
    ("found", "url"),
    [
        (details(), "http://10.0.0.2:8123/metrics"),
        (details(http_options={"host": "10.9.9.9", "port": 81}), "http://10.9.9.9:81/metrics"),
        (details(http_options={"host": "::1", "root_path": "/x/"}), "http://[::1]:8000/x/metrics"),
        (details(proxies={"c": {"node_ip": "10.0.0.3", "status": "UNHEALTHY"}}), None),
        (details(applications={}), None),
        ({}, None),
        (None, None),
        (AttributeError("renamed"), None),
    ],
)
def test_the_address_of_ray_serve(monkeypatch: pytest.MonkeyPatch, found: Any, url: str | None) -> None:
    """A healthy proxy of this node is taken, if there is an application at the route."""
    with_ray(monkeypatch, found)
    assert serve_url.find_serve_url() == url
    assert relax.get_serve_url() == (url or "http://localhost:8000/metrics")


def test_ray_is_not_started_for_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has imported Ray and not joined a cluster is not asked."""
    with_ray(monkeypatch, details(), initialized=False)
    assert serve_url.find_serve_url() is None
