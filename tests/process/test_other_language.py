"""The complete producer of PROTOCOL.md, and those of examples/producer-node and producer-c, in real runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from telemetry.history.request_model import request_counts
from telemetry.history.span_model import span_times
from telemetry.wire.codec import snapshot_from_json
from telemetry.wire.snapshot import MetricsSnapshot

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
EXAMPLE = EXAMPLES / "producer-node"
INSTALL_S = 180
RUN_S = 60


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the example with its packages, so that the tree stays clean."""
    copy = tmp_path_factory.mktemp("node") / "producer"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("node_modules"))
    if shutil.which("npm"):
        command = ["npm", "install", "--no-progress"]
        subprocess.run(command, cwd=copy, check=True, capture_output=True, timeout=INSTALL_S)
    yield copy
    shutil.rmtree(copy, ignore_errors=True)


def result_of(programs: Path, runs: Path, *program: str) -> MetricsSnapshot:
    """Runs a program under `telemetry run` and reads the final file."""
    telemetry = [sys.executable, "-m", "telemetry", "run", "--name", "job", "--dir", str(runs)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TELEMETRY_")}
    environment["TELEMETRY_COLLECT__NAMES"] = "none"
    subprocess.run([*telemetry, "--", *program], cwd=programs, env=environment, check=True, timeout=RUN_S)
    return snapshot_from_json((runs / "latest" / "final_snapshot.json").read_bytes())


def test_the_complete_producer_of_the_protocol_is_complete(tmp_path: Path) -> None:
    """The program of section 1 runs as it stands there, and every event arrives."""
    (program,) = re.findall(r"```python complete\n(.*?)```", (ROOT / "docs" / "PROTOCOL.md").read_text(), re.DOTALL)
    final = result_of(tmp_path, tmp_path / "runs", sys.executable, "-c", program)
    assert (final.state, final.completeness, final.exact) == ("COMPLETE", "complete", True)
    assert (final.accounting.emitted, final.accounting.applied, final.accounting.lost) == (6, 6, 0)
    assert [(series.name, series.unit, series.count, series.total) for series in final.series] == [
        ("latency", "ms", 6, 12)
    ]
    assert [(producer.status, producer.missing) for producer in final.producers] == [("ended", 0)]


def test_a_full_producer_is_complete_and_exact(
    programs: Path, tmp_path: Path, require_tool: Callable[[str], str]
) -> None:
    """Every event of 200,000 arrives, and the result says so."""
    require_tool("node")
    require_tool("npm")
    final = result_of(programs, tmp_path, "node", "producer.js", "200000")
    assert (final.state, final.completeness, final.exact) == ("COMPLETE", "complete", True)
    assert (final.accounting.emitted, final.accounting.applied, final.accounting.lost) == (200_000, 200_000, 0)
    (series,) = final.series
    (counter,) = final.counters
    assert (series.name, series.unit, series.labels, series.count) == ("latency", "ms", {"route": "/node"}, 100_000)
    assert (series.min, series.max, series.percentiles["50"]) == (1, 10.8, 5.8)
    assert (counter.name, counter.value) == ("requests", 100_000)
    (producer,) = final.producers
    assert (producer.name, producer.status, producer.missing) == ("node", "ended", 0)


def test_a_minimal_producer_is_heard_and_called_unknown(
    programs: Path, tmp_path: Path, require_tool: Callable[[str], str]
) -> None:
    """Fifteen lines are enough for numbers, but nobody can tell when they are done."""
    require_tool("node")
    require_tool("npm")
    final = result_of(programs, tmp_path, "node", "minimal.js")
    assert final.state == "COMPLETE"
    assert [(series.name, series.count, series.total) for series in final.series] == [("latency", 3, 4.5)]
    assert [(counter.name, counter.value) for counter in final.counters] == [("requests", 3)]
    (producer,) = final.producers
    assert (producer.completeness, producer.received, producer.missing) == ("unknown", 6, 0)
    assert final.warnings


def test_a_producer_in_c_reports_requests_and_spans(tmp_path: Path, require_tool: Callable[[str], str]) -> None:
    """The producer in C compiles without a warning, and no event is lost.

    The names of section 18 make requests and a span.
    """
    compiler, program = require_tool("gcc"), tmp_path / "producer"
    require_tool("/usr/include/zmq.h")
    source = EXAMPLES / "producer-c" / "producer.c"
    warnings = ("-std=gnu11", "-Wall", "-Wextra", "-Werror")
    subprocess.run([compiler, "-O2", *warnings, "-o", program, source, "-lzmq"], check=True, timeout=RUN_S)
    final = result_of(tmp_path, tmp_path, str(program), "200000")
    assert (final.state, final.completeness, final.exact) == ("COMPLETE", "complete", True)
    assert (final.accounting.emitted, final.accounting.applied, final.accounting.lost) == (200_000, 200_000, 0)
    (counts,) = request_counts(final)
    assert (counts.kind, counts.issued, counts.completed) == ("get", 50_000, 50_000)
    assert counts.rates.overall is not None  # requests/s
    latency = next(series for series in final.series if series.name == "get.latency")
    assert (latency.unit, latency.count, latency.min, latency.max) == ("ns", 50_000, 1_002_000, 1_998_000)
    (span,) = span_times(final)
    assert (span.name, span.durations.count, span.self_ms) == ("work", 50_000, None)
    (producer,) = final.producers
    assert (producer.name, producer.status, producer.missing) == ("c", "ended", 0)
