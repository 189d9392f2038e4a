"""Runs that scrape real servers: the node exporter, a run of our own, and one that is not there."""

from __future__ import annotations

import math
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.ports import free_port
from tests.process.conftest import Ground

from telemetry.collectors.scrape.text import PageReader
from telemetry.store.final_snapshot import read_final
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import MetricsSnapshot

pytestmark = pytest.mark.slow
Require = Callable[[str], str]
WaitUntil = Callable[..., Any]


def page_of(url: str) -> bytes | None:
    """The page, or None while there is none."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
            return bytes(answer.read())
    except OSError:
        return None


@pytest.fixture
def exporter(require_tool: Require, wait_until: WaitUntil) -> Iterator[str]:
    """Address of a node exporter."""
    program, place = require_tool("prometheus-node-exporter"), f"127.0.0.1:{free_port()}"
    process = subprocess.Popen([program, f"--web.listen-address={place}"], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: page_of(f"http://{place}/metrics"), 60.0, "the page of the node exporter")
        yield place
    finally:
        process.kill()
        process.wait()


def result(ground: Ground, root: str) -> MetricsSnapshot:
    return read_final(RunDirectory.open(ground.folder / root / "latest").final)


def test_the_page_of_the_node_exporter_is_read_as_the_oracle_reads_it(exporter: str) -> None:
    """A thousand lines with escapes, exponents and summaries."""
    page = page_of(f"http://{exporter}/metrics")
    assert page is not None
    families = text_string_to_metric_families(page.decode())
    theirs = [(sample.name, sample.labels, float(sample.value)) for family in families for sample in family.samples]
    ours = PageReader().read(page)
    assert ours.malformed == 0
    found = {(one.series.name, tuple(sorted(one.series.labels.items()))): one.value for one in ours.samples}
    assert len(found) == len(ours.samples) > 300
    for name, labels, value in theirs:
        own = name if (key := (name, tuple(sorted(labels.items())))) in found else name.removesuffix("_total")
        number = found[own, key[1]]
        assert number == value or (math.isnan(number) and math.isnan(value)), name
    assert len(theirs) == len(found)


def test_a_run_has_the_figures_of_the_node_exporter(ground: Ground, exporter: str) -> None:
    """Gauges, counters with their rates, a parameter, and a gate on `up`."""
    metrics = "node_load1|node_cpu_seconds_total|node_context_switches_total|node_uname_info"
    code, _, err = ground.run(
        *("run", "--dir", "runs", "--no-collect", "--quiet", "--gate", "min(node.up) >= 1"),
        *("--collect", f"scrape:url={exporter},metrics={metrics},every=0.5,timeout=20,as=node", "--", "sleep", "4"),
    )
    assert code == 0, err
    snapshot = result(ground, "runs")
    gauges = {(stat.name, *stat.labels.values()): stat for stat in snapshot.gauges}
    counters = {(stat.name, *stat.labels.values()): stat for stat in snapshot.counters}
    assert snapshot.completeness == "complete"
    assert gauges["node_load1",].max is not None
    assert counters["node_context_switches_total",].value > 0
    assert gauges["node_context_switches_total.rate",].unit == "1/s"
    busy = [stat.value for key, stat in counters.items() if key[:2] == ("node_cpu_seconds_total", "0")]
    assert 0.5 < sum(busy) < 60.0, "seconds of one CPU in some seconds"
    assert gauges["node_cpu_seconds_total.rate", "0", "idle"].unit == "s/s"
    assert snapshot.params["node_uname_info.sysname"] == "Linux"
    assert {name for name, *_ in gauges} == {
        *("node.up", "node.scrape_seconds", "node_load1"),
        *("node_cpu_seconds_total.rate", "node_context_switches_total.rate"),
    }


JOB = """
import time, telemetry
with telemetry.start("job") as run:
    requests, latency = run.counter("requests"), run.series("latency", unit="ms")
    for at in range(400):
        requests.add(2)
        latency.record(10 + at % 30)
        time.sleep(0.02)
"""


def test_a_run_scrapes_another_run(ground: Ground, wait_until: WaitUntil) -> None:
    """A run scrapes another run's page of the backend `prometheus`.

    The scraped values are counters, gauges and histograms.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    other = ground.telemetry(
        *("run", "--dir", "other", "--no-collect", "--quiet", "--to", f"prometheus:port={port}"),
        *("--", sys.executable, ground.program("job.py", JOB)),
    )
    wait_until(lambda: b"requests_total" in (page_of(url) or b""), 60.0, "the page of the other run")
    metrics = "requests*|latency_seconds*|!*_percentile"
    code, _, err = ground.run(
        *("run", "--dir", "runs", "--no-collect", "--quiet", "--collect"),
        *(f"scrape:url={url},metrics={metrics},every=1,timeout=20", "--", "sleep", "4"),
    )
    assert code == 0, err
    _, said = other.communicate(timeout=120)
    assert other.returncode == 0, said
    total = {stat.name: stat.value for stat in result(ground, "other").counters}["requests"]
    snapshot = result(ground, "runs")
    [counter] = [stat for stat in snapshot.counters if stat.name == "requests_total"]
    assert 0 < counter.value <= total
    gauges = {stat.name: stat for stat in snapshot.gauges}
    for name in ("latency_seconds.p50", "latency_seconds.p99", "latency_seconds.mean"):
        value = gauges[name].value
        assert value is not None
        assert 0.005 < value < 0.08, name
        assert gauges[name].unit == "s"


def test_a_server_that_is_not_there_is_said_and_the_run_is_complete(ground: Ground) -> None:
    """The command is not affected; a gate on `up` fails."""
    code, _, err = ground.run(
        *("run", "--dir", "runs", "--no-collect", "--gate", "min(mine.up) >= 1"),
        *("--collect", f"scrape:url=127.0.0.1:{free_port()},every=0.2,as=mine", "--", "sleep", "2"),
    )
    assert code == 99, err
    assert err.count("Connection refused; it is tried again every 0.2 s") == 1
    assert result(ground, "runs").completeness == "complete"


SLEEPY = "import time; time.sleep(2.5)"


def test_a_run_has_its_code_and_its_environment(ground: Ground, tmp_path: Path) -> None:
    """Code and environment are in the result, the report, and the settings that differ between runs."""
    for words in (
        ["init", "--quiet", "--initial-branch=main"],
        ["commit", "--quiet", "--allow-empty", "--message=a"],
    ):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=ground.folder, check=True)
    collectors = ("--collect", "git", "--collect", "environment:packages=msgspec")
    for threads in ("2", "4"):
        code, _, err = ground.run(
            *("run", "--dir", "runs", "--no-collect", "--quiet", *collectors, "--", sys.executable, "-c", SLEEPY),
            environ={"OMP_NUM_THREADS": threads},
        )
        assert code == 0, err
    params = result(ground, "runs").params
    assert params["git.branch"] == "main"
    assert params["env.OMP_NUM_THREADS"] == "4"
    assert str(params["python.version"]).startswith("3.")
    assert "packages.msgspec" in params
    code, out, err = ground.run("report", "--dir", "runs", "latest", "--full")
    assert code == 0, err
    assert f"code: commit {str(params['git.commit'])[:12]}" not in out  # the full report has the section instead
    assert "Environment" in out
    code, out, err = ground.run("report", "--dir", "runs", "latest")
    assert f"code: commit {str(params['git.commit'])[:12]} of branch main" in out
    runs = sorted(path for path in (ground.folder / "runs").iterdir() if not path.is_symlink())
    code, out, err = ground.run("compare", *map(str, runs))
    assert "env.OMP_NUM_THREADS" in out + err
