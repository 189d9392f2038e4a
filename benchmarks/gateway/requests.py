"""Requests of `wrk`, which keeps a number of connections busy."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.gateway import services
from benchmarks.gateway.services import Service

_CONNECTIONS: Final = 16
_EVENTS: Final = "/v1/events"
_SCRIPT: Final = """
wrk.method = "{method}"
wrk.body = {body}
wrk.headers["Content-Type"] = "application/json"
function done(summary, latency, requests)
    local failed = summary.errors.status + summary.errors.read + summary.errors.write + summary.errors.timeout
    io.write(string.format('RESULT {{"requests": %d, "us": %d, "failed": %d, "p50": %g, "p99": %g}}\\n',
        summary.requests, summary.duration, failed, latency:percentile(50), latency:percentile(99)))
end
"""


class Request(NamedTuple):
    """A request to repeat."""

    name: str
    method: str
    path: str
    body: str = ""


class Figures(NamedTuple):
    """Figures of one round. `cpu_us` is CPU time a request by process."""

    per_s: float
    p50_ms: float
    p99_ms: float
    failed: int
    cpu_us: dict[str, float]
    cores: dict[str, float]


def events(count: int) -> str:
    """Return the body of a request: half counts, half samples, as a program sends them."""
    kinds = (
        {"type": "count", "name": "requests"},
        {"type": "sample", "name": "latency", "value": 12.5, "unit": "ms"},
    )
    return json.dumps({"events": [kinds[number % 2] for number in range(count)]})


BARE: Final = Request("bare application, POST", "POST", _EVENTS, events(1))
REQUESTS: Final = (
    Request("POST /v1/events, 1 event", "POST", _EVENTS, events(1)),
    Request("POST /v1/events, 50 events", "POST", _EVENTS, events(50)),
    Request("GET /v1/snapshot", "GET", "/v1/snapshot"),
)


def show(rounds: int, seconds: int) -> None:
    """Measure, and print a Markdown table: the median of all rounds."""
    found: dict[str, list[Figures]] = {request.name: [] for request in (BARE, *REQUESTS)}
    with services.bare() as bare, services.gateway() as gateway:
        for _ in range(rounds):
            found[BARE.name].append(measure(bare, BARE, seconds))
            for request in REQUESTS:
                found[request.name].append(measure(gateway, request, seconds))
    print(f"`wrk`, {_CONNECTIONS} connections, {rounds} rounds of {seconds} s each")
    print("| request | requests/s | p50 ms | p99 ms | failed | CPU µs a request | cores busy |")
    print("|---|---|---|---|---|---|---|")
    for name, rows in found.items():
        middle = [statistics.median(figures) for figures in zip(*(row[:3] for row in rows), strict=True)]
        failed = sum(row.failed for row in rows)
        cpu = ", ".join(
            f"{who} {statistics.median(row.cpu_us[who] for row in rows):,.0f}" for who in rows[0].cpu_us
        )
        busy = ", ".join(f"{who} {statistics.median(row.cores[who] for row in rows):.2f}" for who in rows[0].cores)
        print(f"| {name} | {middle[0]:,.0f} | {middle[1]:.2f} | {middle[2]:.2f} | {failed} | {cpu} | {busy} |")


def measure(service: Service, request: Request, seconds: int) -> Figures:
    """Repeat a request for some seconds."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "request.lua"
        body = "nil" if not request.body else f"[==[{request.body}]==]"
        script.write_text(_SCRIPT.format(method=request.method, body=body))
        load = [f"-c{_CONNECTIONS}", "-t1", f"-d{seconds}s", "--timeout", "10s", "-s", str(script)]
        before = service.cpu_s()
        done = subprocess.run(
            ["wrk", *load, service.url + request.path], capture_output=True, text=True, check=True, timeout=120
        )
        after = service.cpu_s()
    found = json.loads(done.stdout.rpartition("RESULT ")[2])
    used = {name: after[name] - before[name] for name in after}
    took_s = found["us"] / 1e6
    return Figures(
        per_s=found["requests"] / took_s,
        p50_ms=found["p50"] / 1e3,
        p99_ms=found["p99"] / 1e3,
        failed=found["failed"],
        cpu_us={name: 1e6 * cpu_s / found["requests"] for name, cpu_s in used.items()},
        cores={name: cpu_s / took_s for name, cpu_s in used.items()},
    )
