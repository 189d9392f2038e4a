"""A plain HTTP client of the Relax metrics service against a gateway: its routes, bodies and answers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import count
from math import inf, nan
from typing import Any, Final

import pytest
from tests.backends import reading_clearml, reading_tensorboard, reading_wandb
from tests.gateway_run import Answer, Client, GatewayRun, until
from tests.process.conftest import Ground

STEPS: Final = count(1_000)
"""Steps that no other test uses."""
Values = dict[str, Any]


class Service(Client):
    """The calls of the service, as its document has them."""

    def __init__(self, url: str, prefix: str = "/metrics") -> None:
        super().__init__(url)
        self._prefix = prefix

    def call(self, name: str, **body: Any) -> Answer:
        path = f"{self._prefix}/{name}"
        return self.post(path, body) if name == "log_error" else self.confirm(path, body)

    def log_metric(self, step: Any, name: Any, value: Any, **more: Any) -> Answer:
        return self.call("log_metric", step=step, metric_name=name, metric_value=value, **more)

    def log_metrics_batch(self, step: Any, metrics: Any, **more: Any) -> Answer:
        return self.call("log_metrics_batch", step=step, metrics=metrics, **more)

    def report_step(self, step: Any, **more: Any) -> Answer:
        return self.call("report_step", step=step, **more)

    def ask(self, name: str) -> Answer:
        return self.get(f"{self._prefix}/{name}")


@pytest.fixture(scope="module")
def run() -> Iterator[GatewayRun]:
    """A run with a gateway and without trackers, for all tests that don't read it after its end."""
    ground = Ground()
    yield GatewayRun(ground)
    ground.close()


@pytest.fixture
def service(run: GatewayRun) -> Iterator[Service]:
    made = Service(run.url)
    yield made
    made.close()


@pytest.fixture
def step() -> int:
    return next(STEPS)


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = Ground()
    for name in [name for name in made.environ if name.startswith(("CLEARML_", "WANDB_"))]:
        del made.environ[name]
    made.environ["HOME"] = str(made.folder)
    yield made
    made.close()


def demonstrate(service: Service) -> dict[int, Values]:
    """Make the calls of the deployment script, and return the values that trackers must have."""
    expected: dict[int, Values] = {}
    for step in range(3):
        expected[step] = {
            "train/loss": 0.5 + step * 0.25,
            "train/accuracy": 0.75 - step * 0.0625,
            "train/lr": 0.001953125,
            "perf/throughput": 100 + step * 10,
            "perf/latency": 50 - step * 5,
        }
        for name, value in expected[step].items():
            assert service.log_metric(step, name, value).status == 200
    expected[3] = {"train/loss": 0.375, "train/accuracy": 0.9375, "perf/latency": 35, "custom/metric1": 123.5}
    batch = expected[3] | {"custom/metric2": "some_value"}
    assert service.log_metrics_batch(3, batch).body["message"] == "5 metrics logged for step 3"
    for step, values in expected.items():
        answer = service.report_step(step, wait_s=60.0)
        assert answer.status == 200, answer
        number = len(values) + (step == 3)  # with the text
        assert answer.body["message"] == f"Reported {number} metrics for step {step}"
        assert set(answer.body["results"]) == {"tensorboard", "wandb", "clearml"}
        assert set(answer.body["results"].values()) == {"success"}
    tags = {"source": "api_demo", "type": "test"}
    assert service.log_metric(100, "api/demo_metric", 42.0, tags=tags).status == 200
    assert service.report_step(100, wait_s=60.0).status == 200
    return expected | {100: {"api/demo_metric{source=api_demo,type=test}": 42.0}}


def test_every_tracker_has_the_steps_of_the_demonstration_once(ground: Ground) -> None:
    """The trackers' own readers find each value of each step, no value twice, and the text."""
    flags = ("--to", "tensorboard", "--to", "wandb:mode=offline", "--to", "clearml:mode=offline")
    run = GatewayRun(ground, *flags)
    service = Service(run.url)
    expected = demonstrate(service)
    until(lambda: len(service.ask("health").body["backends"]) == 3, "all backends are known")
    health = service.ask("health").body
    assert (sorted(health["adapters"]), health["wandb_enabled"]) == (["clearml", "tensorboard"], True)
    service.close()
    run.end()

    backends = run.folder / "backends"
    for name, reader in (
        ("tensorboard", reading_tensorboard),
        ("wandb", reading_wandb),
        ("clearml", reading_clearml),
    ):
        written = reader.read_back(backends / name, run.stat(name)["place"])
        assert written.steps == {("step", step): values for step, values in expected.items()}, name
        assert written.counts["step"] == sum(map(len, expected.values())), name
    (events,) = (backends / "tensorboard").rglob("step/*.values")
    texts = reading_tensorboard.accumulated(events.parent)
    (tag,) = (tag for tag in texts.Tags()["tensors"] if tag.startswith("custom/metric2"))
    (event,) = texts.Tensors(tag)
    assert (event.step, reading_tensorboard.text(event)) == (3, "some_value")
    assert ground.final()["completeness"] == "complete"


# --- answers -------------------------------------------------------------------------------------


def test_answers_have_the_shape_that_clients_read(service: Service, step: int) -> None:
    """Status, message and results; what is added to them disturbs no client."""
    one = service.log_metric(step, "train/loss", 0.5)
    assert (one.status, one.body["status"]) == (200, "success")
    assert one.body["message"] == f"Metric train/loss logged for step {step}"
    batch = service.log_metrics_batch(step, {"a": 1, "b": True}, tags=None)
    assert (batch.status, batch.body["status"]) == (200, "success")
    assert batch.body["message"] == f"2 metrics logged for step {step}"
    report = service.report_step(step)
    assert (report.status, report.body) == (
        200,
        {"status": "success", "message": f"Reported 3 metrics for step {step}", "results": {}},
    )
    unknown = service.report_step(next(STEPS))
    assert (unknown.status, unknown.body["message"].partition(" for ")[0]) == (200, "Reported 0 metrics")
    health = service.ask("health")
    assert (health.status, health.body["status"], health.body["service"]) == (200, "healthy", "metrics")
    assert (health.body["adapters"], health.body["wandb_enabled"]) == ([], False)


@pytest.mark.parametrize("prefix", ["", "/metrics"])
def test_routes_exist_with_and_without_the_prefix(run: GatewayRun, step: int, prefix: str) -> None:
    """An application that is mounted below `/metrics` sees the bare ones."""
    service = Service(run.url, prefix)
    assert service.log_metric(step, "loss", 0.5).status == 200
    assert service.log_metrics_batch(step, {"reward": 2}).status == 200
    assert service.ask(f"query_metrics?step={step}").body["metrics"] == {"loss": 0.5, "reward": 2.0}
    assert service.call("clear_metrics", step=step).status == 200
    assert service.call("log_error", error_message="boom").status == 200
    assert service.report_step(step).body["message"] == f"Reported 0 metrics for step {step}"
    assert service.ask("health").status == 200
    service.close()


BAD: Final[list[tuple[str, Values, list[str]]]] = [
    ("log_metric", {}, []),
    ("log_metric", {"step": 1, "metric_name": "a"}, []),
    ("log_metric", {"step": "1", "metric_name": "a", "metric_value": 1}, ["step"]),
    ("log_metric", {"step": 1.5, "metric_name": "a", "metric_value": 1}, ["step"]),
    ("log_metric", {"step": True, "metric_name": "a", "metric_value": 1}, ["step"]),
    ("log_metric", {"step": 1 << 63, "metric_name": "a", "metric_value": 1}, ["step"]),
    ("log_metric", {"step": 1, "metric_name": "", "metric_value": 1}, ["metric_name"]),
    ("log_metric", {"step": 1, "metric_name": "a" * 201, "metric_value": 1}, ["metric_name"]),
    ("log_metric", {"step": 1, "metric_name": "a", "metric_value": ["x"]}, ["metric_value"]),
    ("log_metric", {"step": 1, "metric_name": "a", "metric_value": [1, "x"]}, ["metric_value"]),
    ("log_metric", {"step": 1, "metric_name": "a", "metric_value": {}}, ["metric_value"]),
    ("log_metric", {"step": 1, "metric_name": "a", "metric_value": [{"ph": "X", "ts": 0}]}, ["metric_value"]),
    ("log_metric", {"step": 1, "metric_name": "a", "metric_value": 1, "tags": {"rank": 0}}, ["tags", "rank"]),
    ("log_metrics_batch", {"step": 1}, []),
    ("log_metrics_batch", {"step": 1, "metrics": [1]}, ["metrics"]),
    ("log_metrics_batch", {"step": 1, "metrics": {"a": ["x"], "b": {}}}, ["metrics", "a"]),
    ("report_step", {}, []),
    ("report_step", {"step": None}, ["step"]),
    ("report_step", {"step": 1, "wait_s": -1}, ["wait_s"]),
    ("clear_metrics", {"step": "all"}, ["step"]),
    ("log_error", {"error_traceback": "Traceback"}, []),
    ("log_error", {"error_message": 5}, ["error_message"]),
]


@pytest.mark.parametrize(("name", "body", "where"), BAD)
def test_a_wrong_body_is_refused_and_its_field_named(
    service: Service, name: str, body: Values, where: list[str]
) -> None:
    """The answer has the form that clients of FastAPI know, and nothing is recorded."""
    answer = service.call(name, **body)
    assert (answer.status, answer.body["status"]) == (422, "error")
    assert answer.body["detail"][0]["loc"] == ["body", *where]
    assert answer.body["message"]
    assert service.ask("query_metrics?step=1").status == 404


def test_other_wrong_requests_have_their_own_answers(service: Service) -> None:
    """A broken body, another content type, a missing route, a wrong method, a wrong query."""
    assert service.post("/metrics/log_metric", b"{").status == 400
    assert service.post("/metrics/log_metric", b"{}", "text/plain").status == 415
    assert service.call("log_metrics").status == 404
    assert service.get("/metrics/report_step").status == 405
    answer = service.ask("query_metrics?step=first")
    assert (answer.status, answer.body["detail"][0]["loc"]) == (422, ["query", "step"])


# --- values --------------------------------------------------------------------------------------


def test_a_value_costs_only_itself(service: Service, step: int) -> None:
    """Numbers, NaN, null, tensors, texts, dictionaries and timelines are kept; of the others, each is named."""
    event = {"name": "rollout", "ph": "X", "ts": time.time_ns() // 1_000, "dur": 5, "pid": 1, "tid": 1}
    metrics = {
        "loss": 0.5,
        "done": True,
        "nan": nan,
        "infinite": -inf,
        "none": None,
        "weights": [[1.0, 2.0], [3.0, None]],
        "note": "resumed",
        "eval": {"accuracy": 0.75, "by_task": {"math": 0.5, "bad": []}},
        "one_event": event,
        "__timeline_events__": [event, event | {"ts": 0}],
        "empty": [],
        "no_weights": [[None, None], [None]],
        "words": ["a", "b"],
        "shapes": [1, [None, "a"]],
    }
    answer = service.log_metrics_batch(step, metrics)
    assert (answer.status, answer.body["status"]) == (200, "success")
    outcomes = answer.body["outcomes"]
    assert set(outcomes) == set(metrics)
    for name in ("loss", "done"):
        assert outcomes[name] == "recorded"
    for name in ("nan", "infinite", "none", "no_weights"):
        assert outcomes[name] == "recorded as not finite"
    assert (outcomes["weights"], outcomes["note"]) == ("recorded as distribution", "recorded as text")
    assert outcomes["one_event"] == "recorded as timeline events"
    assert outcomes["__timeline_events__"].startswith("recorded as timeline events, but for 1 timeline event: ")
    for name in ("words", "shapes"):
        assert outcomes[name].startswith("not recorded: ")
    found = service.ask(f"query_metrics?step={step}").body["metrics"]
    assert found == {
        "loss": 0.5,
        "done": 1.0,
        "nan": None,
        "infinite": None,
        "none": None,
        "no_weights": None,
        "eval/accuracy": 0.75,
        "eval/by_task/math": 0.5,
        "note": metrics["note"],
        "weights": found["weights"],
    }
    assert sum(found["weights"]["counts"]) == 3
    assert service.report_step(step).body["message"] == f"Reported 10 metrics for step {step}"


def test_not_finite_numbers_alone_are_a_success(service: Service, step: int) -> None:
    """Clients turn NaN into null. They take anything but `success` for a failure of the whole step."""
    metrics = {"loss": 0.5, "grad_norm": None, "lr": nan, "weights": [1.0, None], "norms": [None], "x": {"y": None}}
    answer = service.log_metrics_batch(step, metrics)
    assert (answer.status, answer.body["status"]) == (200, "success")


def test_tags_are_kept(service: Service, step: int) -> None:
    """A name with other tags is another value, in one order of the tags."""
    for role in ("actor", "critic"):
        tags = {"role": role, "rank": "0"}
        assert service.log_metric(step, "loss", 0.5, tags=tags).status == 200
        tags = {"rank": "0", "role": role}
        assert service.log_metric(step, "loss", len(role), tags=tags).status == 200
    found = service.ask(f"query_metrics?step={step}").body["metrics"]
    assert found == {"loss{rank=0,role=actor}": 5.0, "loss{rank=0,role=critic}": 6.0}


def test_the_newest_value_of_a_name_counts(service: Service, step: int) -> None:
    """The newest value of a name counts, as in the dictionary that the service makes of a step."""
    for value in (1, 3, 2):
        assert service.log_metric(step, "loss", value).status == 200
    assert service.ask(f"query_metrics?step={step}").body["metrics"] == {"loss": 2.0}


# --- query and clear -----------------------------------------------------------------------------


def test_query_finds_open_and_reported_steps(service: Service, step: int) -> None:
    """A query finds open and reported steps, and without a step returns the newest values."""
    path = f"query_metrics?step={step}"
    assert service.ask(path).status == 404
    service.log_metric(step, "queried", 1)
    answer = service.ask(path)
    assert (answer.body["status"], answer.body["metrics"], answer.body["reported"]) == (
        "success",
        {"queried": 1.0},
        False,
    )
    service.report_step(step)
    assert (service.ask(path).body["metrics"], service.ask(path).body["reported"]) == ({"queried": 1.0}, True)
    newest = service.ask("query_metrics").body
    assert (newest["step"], newest["metrics"]["queried"]) == (step, 1.0)


def test_query_has_texts_and_distributions(service: Service, step: int) -> None:
    """A query has the texts and distributions of open and reported steps.

    Steps with nothing else have them too, and the newest one of a name counts.
    """
    path = f"query_metrics?step={step}"
    for text in ("first", "second"):
        service.log_metric(step, "note", text)
    assert (service.ask(path).body["metrics"], service.ask(path).body["reported"]) == ({"note": "second"}, False)
    assert service.call("clear_metrics", step=step).status == 200
    assert service.ask(path).status == 404
    service.log_metric(step, "note", "third")
    service.log_metric(step, "lengths", [1.0, 2.0, 2.0])
    assert service.report_step(step).body["message"] == f"Reported 2 metrics for step {step}"
    body = service.ask(path).body
    assert (body["metrics"]["note"], body["reported"]) == ("third", True)
    distribution = body["metrics"]["lengths"]
    assert (sum(distribution["counts"]), len(distribution["edges"])) == (3, len(distribution["counts"]) + 1)
    assert service.call("clear_metrics", step=step).status == 409


def test_late_values_correct_a_reported_step(service: Service, step: int) -> None:
    """A step may be reported again."""
    service.log_metric(step, "loss", 1)
    service.report_step(step)
    assert service.log_metric(step, "reward", 2).status == 200
    assert service.report_step(step).body["message"] == f"Reported 2 metrics for step {step}"
    assert service.ask(f"query_metrics?step={step}").body["metrics"] == {"loss": 1.0, "reward": 2.0}


def test_clear_forgets_what_is_not_reported(service: Service, step: int) -> None:
    """One step, or all of them. A reported step can't be cleared."""
    others = [next(STEPS), next(STEPS)]
    for each in (step, *others):
        service.log_metric(each, "loss", 1)
    assert service.call("clear_metrics", step=step).status == 200
    assert service.ask(f"query_metrics?step={step}").status == 404
    assert service.ask(f"query_metrics?step={others[0]}").status == 200
    service.report_step(others[0])
    assert service.call("clear_metrics").status == 200
    assert service.ask(f"query_metrics?step={others[1]}").status == 404
    answer = service.call("clear_metrics", step=others[0])
    assert (answer.status, answer.body["status"]) == (409, "error")
    assert service.ask(f"query_metrics?step={others[0]}").body["metrics"] == {"loss": 1.0}
    service.log_metric(step, "again", 2)
    assert service.report_step(step).body["message"] == f"Reported 1 metrics for step {step}"


# --- the end -------------------------------------------------------------------------------------


def test_errors_and_timelines_are_in_the_result(ground: Ground) -> None:
    """An error is a mark, and its traceback a text: the end of a long one. Events are spans of their step. Steps
    that nobody reports close at the end of the run."""
    run = GatewayRun(ground, "--timeline-dir", "traces")
    service = Service(run.url)
    traceback = "Traceback (most recent call last):\n" + "  line\n" * 1_000 + "RuntimeError: boom"
    answer = service.call("log_error", error_message="rank 3 failed", error_traceback=traceback)
    assert (answer.status, answer.body["status"]) == (200, "success")
    start_us = time.time_ns() // 1_000
    event = {"name": "rollout", "pid": 1, "tid": 2, "args": {"step": 5}}
    begin, end = event | {"ph": "B", "ts": start_us}, event | {"ph": "E", "ts": start_us + 2_000}
    assert service.log_metric(5, "timeline", begin).status == 200
    assert service.log_metric(5, "timeline", [end]).status == 200
    assert service.log_metric(5, "loss", 0.5).status == 200
    assert service.report_step(5).status == 200
    assert service.log_metric(6, "loss", 0.25).status == 200
    service.close()
    run.end()

    final = ground.final()
    (mark,) = final["marks"]
    assert (mark["text"], mark["labels"]) == ("rank 3 failed", {"level": "error", "source": "log_error"})
    lines = (run.folder / "records" / "records.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    (text,) = (record["text"] for record in records if record.get("type") == "text")
    assert traceback.endswith(text)
    assert text.endswith("RuntimeError: boom")
    (span,) = (record for record in records if record.get("type") == "span")
    assert (span["name"], span["track"], span["labels"]) == ("rollout", "1/2", {"step": "5"})
    assert span["end_ns"] - span["start_ns"] == pytest.approx(2_000_000, abs=1_000)
    steps = {record["step"]: record["values"] for record in records if record.get("type") == "step"}
    assert steps == {5: {"loss": 0.5}, 6: {"loss": 0.25}}
    assert final["completeness"] == "complete"
