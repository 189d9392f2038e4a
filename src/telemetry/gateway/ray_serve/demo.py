"""Demonstrations of the metrics service: with the client, and with plain HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from telemetry.compat.relax import MetricsClient
from telemetry.errors import EndpointError
from telemetry.gateway.options import TOKEN_VARIABLE

Say = Callable[[str], object]
_ANSWER_S: Final = 10.0
_STEPS: Final = 3


def use_client(url: str, say: Say) -> bool:
    """Log and report steps with the client. Return False if a step was not taken.

    Raise EndpointError if the service does not answer.
    """
    client = MetricsClient(url, report_timeout_s=_ANSWER_S)
    health = client.health_check()
    if health["status"] != "healthy":
        raise EndpointError(f"the service is not healthy: {health['message']}", hint="deploy the service first")
    say(f"health: {health}")
    for step in range(_STEPS):
        client.log_metric(step, "train/loss", 1.0 / (step + 1))
        client.log_metric(step, "train/lr", 1e-3, tags={"group": "head"})
        client.log_metric(step, "perf/tokens_per_s", 1_000.0 + 50.0 * step)
        say(f"step {step}: 3 metrics are held by the client")
    client.log_metrics_batch(_STEPS, {"train/loss": 0.2, "eval/score": 0.71, "note": "a text is kept, too"})
    say(f"step {_STEPS}: a batch of 3 metrics is held; in all {client.get_buffered_metrics_count()}")
    taken = True
    for step in range(_STEPS + 1):
        answer = client.report_step(step)
        taken = taken and answer["status"] in ("success", "pending")
        say(f"report of step {step}: {answer['status']} – {answer['message']}")
        for backend, result in answer.get("results", {}).items():
            say(f"    {backend}: {result}")
    say(f"held after the reports: {client.get_buffered_metrics_count()}")
    return taken


def use_http(url: str, say: Say) -> bool:
    """Log and report a step with HTTP requests. Return False if one failed.

    Raise EndpointError if the service does not answer.
    """
    step = 100
    metric = {"step": step, "metric_name": "api/value", "metric_value": 42.0, "tags": {"source": "demo"}}
    calls: list[tuple[str, dict[str, Any] | None]] = [
        ("health", None),
        ("log_metric", metric),
        ("report_step", {"step": step}),
        (f"query_metrics?step={step}", None),
    ]
    done = True
    for path, body in calls:
        status, answer = _asked(f"{url}/{path}", body)
        done = done and status < 300
        say(f"{'GET' if body is None else 'POST'} {url}/{path}: {status}")
        say(f"    {answer}")
    return done


def _asked(url: str, body: dict[str, Any] | None) -> tuple[int, str]:
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get(TOKEN_VARIABLE, ""):
        headers["Authorization"] = f"Bearer {token}"
    request = Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urlopen(request, timeout=_ANSWER_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (URLError, TimeoutError) as error:
        raise EndpointError(f"{url} does not answer: {error}", hint="deploy the service first") from error
