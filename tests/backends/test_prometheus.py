"""Tests of what Prometheus itself answers about a run that it scraped."""

from __future__ import annotations

import math
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.backends.reading_prometheus import (
    OPENMETRICS,
    PROTOBUF,
    TEXT,
    Asked,
    Key,
    get,
    prometheus,
    samples,
    written,
)

from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.backends.items import Live
from telemetry.backends.prometheus import PrometheusBackend
from telemetry.backends.prometheus.backend import PrometheusOptions
from telemetry.store.backends import writer_folder
from telemetry.wire.cells import cell
from telemetry.wire.snapshot import AxisStat, CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
RATE = 1_000
"""Values and requests a second."""


class Job:
    """Grows evenly with time; its latencies are 10 ms to 40 ms, each as likely."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        self._cells: dict[int, int] = {}
        self._total = 0.0
        self._count = 0
        self._began = time.monotonic()

    def snapshot(self, state: Any = "LIVE") -> MetricsSnapshot:
        for _ in range(int((time.monotonic() - self._began) * RATE) - self._count):
            value_ms = self._random.uniform(10.0, 40.0)
            ticks = round(value_ms * 1e6)
            self._cells[cell(ticks)] = self._cells.get(cell(ticks), 0) + 1
            self._total += value_ms
            self._count += 1
        return MetricsSnapshot(
            run_id="r1",
            name="job",
            state=state,
            time_ns=time.time_ns(),
            counters=[CounterStat(name="http/requests", value=self._count)],
            gauges=[GaugeStat(name="depth", labels={"le": 'a\\b"c\nd', "λ": "ü"}, value=-2.5)],
            series=[
                SeriesStat(
                    name="latency",
                    labels={"route": "/a"},
                    unit="ms",
                    count=self._count,
                    total=self._total,
                    histogram=sorted(self._cells.items()),
                    cell_unit=1e-6,
                )
            ],
            axes=[AxisStat(name="train", newest=self._count, values={"train/loss": self._count / 8, "λ": None})],
        )


def test_prometheus_answers_for_a_run(
    tmp_path: Path, require_tool: Callable[[str], str], wait_until: Callable[..., object]
) -> None:
    """Rates and quantiles of a live run are right, from classic and from native histograms; the last values are
    those of the last snapshot; then the target is gone."""
    program = require_tool("prometheus")
    backend = PrometheusBackend(PrometheusOptions(port=0), tmp_path)
    backend.open(RunFacts("r1", "job", 0, None, host="here"), {})
    target = backend.where().removeprefix("http://").removesuffix("/metrics")
    job, over = Job(), threading.Event()

    def show(state: str = "LIVE") -> MetricsSnapshot:
        snapshot = job.snapshot(state)
        backend.write([Live(key="s", time_ns=0, snapshot=snapshot)])
        return snapshot

    def live() -> None:
        while not over.wait(0.05):
            show()

    show()
    thread = threading.Thread(target=live)
    thread.start()
    try:
        with (
            prometheus(program, tmp_path / "classic", target) as classic,
            prometheus(program, tmp_path / "native", target, native=True) as native,
        ):
            _check_rates(classic, native, wait_until)
            over.set()
            thread.join()
            last = show("COMPLETE")
            for one in (classic, native):
                wait_until(lambda one=one: one.value("http_requests_total") == last.counters[0].value)
            _check_last(classic, native, last)
            backend.close(final=True)
            for one in (classic, native):
                wait_until(lambda one=one: one.value("up") == 0.0, what="the end of the target")
            assert math.isnan(classic.value("http_requests_total"))
    finally:
        over.set()
        thread.join()
        backend.close(final=False)


def _check_rates(classic: Asked, native: Asked, wait_until: Callable[..., object]) -> None:
    """Five times the distance that a busy machine makes is allowed; a quantile is within the width of its cell."""
    for one in (classic, native):
        wait_until(lambda one=one: _listens(one), what="an answer")
        wait_until(lambda one=one: one.value("count_over_time(http_requests_total[1m])") >= 10, timeout_s=30.0)
        assert one.value("rate(http_requests_total[2s])") == pytest.approx(RATE, rel=0.5)
    for quantile in (0.25, 0.5, 0.9):
        truth = 0.01 + 0.03 * quantile
        asked = f"histogram_quantile({quantile}, rate(latency_seconds_bucket[2s]))"
        assert classic.value(asked) == pytest.approx(truth, rel=0.15)
        assert native.value(asked.replace("_bucket", "")) == pytest.approx(truth, rel=0.15)


def _check_last(classic: Asked, native: Asked, last: MetricsSnapshot) -> None:
    (series,) = last.series
    for one in (classic, native):
        assert one.value('telemetry_step_value{name="train/loss"}') == last.counters[0].value / 8
        assert math.isnan(one.value('telemetry_step_value{name="λ"}'))
        assert one.values("depth") == {
            frozenset({("__name__", "depth"), ("U__le", 'a\\b"c\nd'), ("U___3bb_", "ü")}): -2.5
        }
        assert one.value('telemetry_run_state{state="COMPLETE"}') == 1.0
    assert classic.value("latency_seconds_count") == series.count
    assert classic.value("latency_seconds_sum") == pytest.approx(series.total / 1_000, rel=1e-12)
    assert native.value("histogram_count(latency_seconds)") == series.count
    assert native.value("histogram_sum(latency_seconds)") == pytest.approx(series.total / 1_000, rel=1e-12)


def _listens(asked: Asked) -> bool:
    try:
        return asked.value("up") == 1.0
    except OSError:
        return False


JOB = """
import sys, telemetry
with telemetry.start("bench", dir=sys.argv[1]) as run:
    series = [run.series(f"latency/{number}", unit="ms", route="/a") for number in range(10)]
    requests, depth = run.counter("http/requests"), run.gauge("depth", unit="KiB")
    for step in range(10_000):
        run.log({f"train/v{number}": step + number / 8 for number in range(20)}, step=step, axis="train")
        run.end_step(step, axis="train")
        for number, one in enumerate(series):
            one.record(1.0 + (step * 7919 + number) % 1000 / 10)
        requests.add(3)
        depth.set(step / 4)
"""


def test_the_final_values_are_those_of_the_result(tmp_path: Path, wait_until: Callable[..., Any]) -> None:
    """10,000 steps of 20 scalars and 10 series, exported: every format says what `final_snapshot.json` says, then
    the writer has delivered."""
    subprocess.run([sys.executable, "-c", JOB, str(tmp_path)], cwd=ROOT, check=True, timeout=100)
    (directory,) = (path for path in tmp_path.iterdir() if path.name.startswith("bench-"))
    result = msgspec.json.decode((directory / "final_snapshot.json").read_bytes(), type=MetricsSnapshot)
    command = [sys.executable, "-m", "telemetry", "export", str(directory), "--to", "prometheus:port=0,linger=50"]
    folder = writer_folder(directory, "prometheus")
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as export:
        address = wait_until(lambda: (stat := folder.read_status()) and stat.place, timeout_s=50.0)
        found = samples(*wait_until(lambda: _scraped(address), timeout_s=50.0))
        _, said = export.communicate(timeout=50.0)
        assert export.returncode == 0, said
    _check_result(found, result)
    backend = PrometheusBackend(PrometheusOptions(port=0), tmp_path)
    host = next(dict(labels)["host"] for name, labels in found if name == "telemetry_run_info")
    backend.open(RunFacts("r1", "job", 0, None, host=host), {})
    backend.write([Live(key="s", time_ns=0, snapshot=result)])
    for accept in (PROTOBUF, OPENMETRICS, TEXT):
        assert _plain(samples(*get(backend.where(), accept))) == _plain(found)
    backend.close(final=True)


def _scraped(address: str) -> tuple[str, bytes] | None:
    try:
        return get(address, TEXT)
    except OSError:
        return None


def _plain(found: dict[Key, float]) -> list[str]:
    """Return the values as sorted lines, without the disk, which other programs fill meanwhile."""
    return sorted(
        f"{name} {sorted(labels)} {float(value)!r}"
        for (name, labels), value in found.items()
        if not name.startswith("telemetry_run_disk_")
    )


def _check_result(found: dict[Key, float], result: MetricsSnapshot) -> None:
    """Check the values against figures that are computed in another way than the backend's."""
    assert result.completeness == "complete"
    values = written(found).steps["train", 9_999]
    assert values == {f"train/v{number}": 9_999 + number / 8 for number in range(20)}
    assert found["telemetry_steps_closed_total", frozenset({("axis", "train")})] == 10_000
    assert found["http_requests_total", frozenset()] == 30_000
    assert found["depth_bytes", frozenset()] == 9_999 / 4 * 1024
    route = ("route", "/a")
    for stat in result.series:
        name = stat.name.replace("/", "_") + "_seconds"
        assert found[f"{name}_count", frozenset({route})] == stat.count == 10_000
        assert found[f"{name}_sum", frozenset({route})] == pytest.approx(stat.total / 1_000, rel=1e-12)
        for key, value in stat.percentiles.items():
            place = frozenset({route, ("percentile", key)})
            assert found[f"{name}_percentile", place] == pytest.approx(value / 1_000, rel=1e-12)
        buckets = {dict(labels)["le"]: count for (one, labels), count in found.items() if one == f"{name}_bucket"}
        for bound, count in buckets.items():
            below = sum(10 for tenths in range(1_000) if (10 + tenths) / 1e4 <= float(bound))
            assert count == below, (name, bound)


def test_a_port_in_use_is_an_error_unless_another_one_may_be_taken(tmp_path: Path) -> None:
    """The message names the other port, which a restarted writer takes again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        refused = PrometheusBackend(PrometheusOptions(port=port, targets="none"), tmp_path)
        with pytest.raises(NotConfigured, match=f"port {port} of 127.0.0.1 is in use"):
            refused.open(RunFacts("r1", "job", 0, None, host="here"), {})
        lines: list[object] = []
        backend = PrometheusBackend(PrometheusOptions(port=port, auto_port=True, targets="none"), tmp_path)
        backend.say = lines.append
        backend.open(RunFacts("r1", "job", 0, None, host="here"), {})
        address, state = backend.where(), backend.state()
        assert lines == [f"port {port} is in use, so the metrics are at {address}"]
    backend.open(RunFacts("r1", "job", 0, None, host="here"), state)
    assert backend.where() == address
    backend.close(final=False)
