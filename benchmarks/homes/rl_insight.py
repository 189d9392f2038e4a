"""The cost of RL-Insight's calls: through its own hub, a Ray actor, through the capture, and of our interface."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any, Final

from tests.ports import free_port

_CALLS: Final = 5_000
_ROUNDS: Final = 10
_HUB_CALLS: Final = 1_000  # a hub keeps 2,300 a second, and Ray warns above 5,000 that wait
_PAUSE_S: Final = 0.06  # longer than the interval of the flusher, which empties the buffer
_SERVER_VARIABLE: Final = "RL_INSIGHT_SERVER_URL"

Task = Callable[[int], None]


def measure(calls: int = _CALLS, rounds: int = _ROUNDS) -> dict[str, float]:
    """Return nanoseconds of the caller's thread per call, by name: the best of several rounds.

    Rounds with the hub come first, in a Ray cluster on this machine and with a server that only answers. The hub
    handles all events of a round before the next one begins. `waited` is what the caller waits for, by the clock.
    `capture adds` is the difference to a client that does nothing.
    """
    import telemetry

    rl_insight = import_module("rl_insight")
    before = dict(os.environ)
    os.environ.pop("TELEMETRY_ENDPOINT", None)
    folder = tempfile.mkdtemp(prefix="tm")
    try:
        found = _with_hub(rl_insight, min(calls, _HUB_CALLS), rounds)
        os.environ.pop(_SERVER_VARIABLE, None)
        with telemetry.start("rl_insight", dir=folder):
            found |= _without_hub(rl_insight, calls, rounds)
        return {f"{name} ns": value for name, value in found.items()}
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def _with_hub(rl_insight: Any, calls: int, rounds: int) -> dict[str, float]:
    ray = import_module("ray")
    with _server() as url:
        os.environ[_SERVER_VARIABLE] = url
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
        try:
            rl_insight.init("p", "e", {"prometheus": {"metrics_report_port": free_port()}})
            hub = import_module("rl_insight.api")._STATE.client._actor

            def settle() -> None:
                ray.get(hub.get_status.remote())

            settle()
            return _best({"metric_gauge, Ray hub": _gauge(rl_insight)}, calls, rounds, settle)
        finally:
            rl_insight.finish()
            ray.shutdown()


def _without_hub(rl_insight: Any, calls: int, rounds: int) -> dict[str, float]:
    ours = import_module("telemetry.compat.rl_insight")
    capture = import_module("telemetry.integrations.rl_insight")
    registry = import_module("rl_insight.client.base").MONITOR_CLIENT_REGISTRY
    registry["nothing"] = lambda conf: _NoClient()
    nothing = {"server": {"backend": "nothing"}}
    ours.init("p", "e")
    capture.install()
    try:
        rl_insight.init("p", "e", nothing)
        alone = _best({"gauge": _gauge(rl_insight), "span": _span(rl_insight)}, calls, rounds, _flush)
        rl_insight.finish()
        rl_insight.init("p", "e")
        tasks = {
            "metric_gauge, captured": _gauge(rl_insight),
            "metric_gauge, ours": _gauge(ours),
            "trace_span, captured": _span(rl_insight),
            "trace_span, ours": _span(ours),
        }
        found = _best(tasks, calls, rounds, _flush)
    finally:
        rl_insight.finish()
        capture.uninstall()
        ours.finish()
        del registry["nothing"]
    found["metric_gauge, capture adds"] = found["metric_gauge, captured"] - alone["gauge"]
    found["trace_span, capture adds"] = found["trace_span, captured"] - alone["span"]
    return found


class _NoClient:
    """A client that does nothing."""

    def apply_event(self, event: dict[str, Any]) -> None:
        pass


def _gauge(module: Any) -> Task:
    def task(calls: int) -> None:
        metric_gauge = module.metric_gauge
        for _ in range(calls):
            metric_gauge("actor_loss", 0.5)

    return task


def _span(module: Any) -> Task:
    def task(calls: int) -> None:
        trace_span, now = module.trace_span, time.time_ns()
        for _ in range(calls):
            trace_span(name="turn", start_time_ns=now, end_time_ns=now, attributes={"turn": 1})

    return task


def _flush() -> None:
    time.sleep(_PAUSE_S)


def _best(tasks: dict[str, Task], calls: int, rounds: int, settle: Callable[[], None]) -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, task in tasks.items():
            clocks = {name: time.thread_time_ns, f"{name}, waited": time.perf_counter_ns}
            started = {key: clock() for key, clock in clocks.items()}
            task(calls)
            for key, clock in clocks.items():
                best[key] = min(best.get(key, float("inf")), (clock() - started[key]) / calls)
            settle()
    return best


# --- a server for the hub ------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    """Answers as a server of RL-Insight whose services are all disabled."""

    def do_GET(self) -> None:
        body = json.dumps({"status": "ok", "otlp_port": None}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def _server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    for figure, value in measure().items():
        print(f"{value:10.0f}  {figure}")
