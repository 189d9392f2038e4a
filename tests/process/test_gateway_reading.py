"""Tests of what a gateway tells of its run.

It serves snapshots, a stream of them, the history, and a page for Prometheus.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from tests.backends.reading_prometheus import prometheus
from tests.process.conftest import DEADLINE_S
from tests.process.gateways import Follower, Gateway, Site, counters
from tests.process.gateways import site as site  # noqa: PLC0414 – a fixture

from telemetry.wire.snapshot import MetricsSnapshot

WaitUntil = Callable[..., Any]


def has(gateway: Gateway, number: float) -> bool:
    """Check that the newest snapshot has a count."""
    return counters(gateway.get("/v1/snapshot").json()).get("n") == number


def test_the_snapshot_is_that_of_status(site: Site, wait_until: WaitUntil) -> None:
    """JSON and msgpack, with the fields of `telemetry status --json`."""
    site.begin()
    gateway = site.gateway()
    assert gateway.get("/v1/snapshot").status_code == 200, "the first request waits for the first snapshot"
    gateway.post({"type": "count", "name": "n"}, {"type": "sample", "name": "s", "value": 3.0, "unit": "ms"})
    wait_until(lambda: has(gateway, 1.0), DEADLINE_S, "the count")
    code, out, err = site.run("status", "job", "--json")
    assert code == 0, err
    status, snapshot = json.loads(out), gateway.get("/v1/snapshot").json()
    assert set(snapshot) - set(status) == set(), sorted(set(snapshot) - set(status))
    for document in (status, snapshot):  # figures of the last seconds change from one snapshot to the next
        for counter in document["counters"]:
            del counter["rate"]
        for series in document["series"]:
            del series["window"]
    for kind in ("counters", "series", "params", "name", "run_id", "started_ns", "axes"):
        assert snapshot[kind] == status[kind]
    packed = gateway.get("/v1/snapshot", headers={"Accept": "application/msgpack"})
    assert packed.headers["content-type"] == "application/msgpack"
    decoded = msgspec.msgpack.decode(packed.content, type=MetricsSnapshot)
    assert (decoded.run_id, decoded.counters[0].value) == (status["run_id"], 1.0)


def test_prometheus_discovers_the_gateway(
    site: Site, tmp_path: Path, require_tool: Callable[[str], str], wait_until: WaitUntil
) -> None:
    """A real Prometheus learns the page from the gateway, and its labels name the run."""
    site.begin()
    gateway = site.gateway()
    assert gateway.count(3, "requests").status_code == 200
    with prometheus(
        require_tool("prometheus"), tmp_path / "prometheus", f"{gateway.url}/prometheus/targets"
    ) as asked:

        def found() -> dict[frozenset[tuple[str, str]], float]:
            with suppress(OSError):
                return asked.values("requests_total")
            return {}

        wait_until(found, DEADLINE_S, "a scrape")
        [(labels, value)] = found().items()
    assert value == 3.0
    assert dict(labels)["run"] == "job"


def test_the_end_of_the_run_ends_everything(site: Site, wait_until: WaitUntil) -> None:
    """Followers get the final snapshot and the end, new events are refused, and the gateway exits."""
    site.begin()
    gateway = site.gateway()
    late: list[Any] = []

    def ask() -> None:
        late.extend((gateway.count(100), gateway.get("/v1/snapshot")))

    followers = [Follower(gateway, 0.0, ask), Follower(gateway, 3_600.0)]
    assert gateway.count(1).status_code == 200
    wait_until(lambda: all(follower.snapshots for follower in followers), DEADLINE_S, "snapshots")
    final = site.stop()
    for follower in followers:
        follower.join(DEADLINE_S)
        assert follower.ended
        assert follower.snapshots[-1]["state"] == "COMPLETE"
        assert counters(follower.snapshots[-1]) == {"n": 1.0}
    often, seldom = followers
    assert len(often.snapshots) > len(seldom.snapshots) == 2, "one at once, and the last one"
    numbers = [snapshot["seq"] for snapshot in often.snapshots]
    assert numbers == sorted(set(numbers))
    refused, last = late
    assert (refused.status_code, last.json()["state"]) == (410, "COMPLETE")
    assert "the run is over" in refused.json()["message"]
    assert gateway.end() == ""
    assert (final["state"], final["completeness"], counters(final)) == ("COMPLETE", "complete", {"n": 1.0})


def test_a_stream_sends_as_often_as_it_is_asked_to(site: Site, wait_until: WaitUntil) -> None:
    """A stream sends at the pace that its reader asks for, not each of ten snapshots a second."""
    site.begin("--refresh-hz", "20")
    gateway = site.gateway()
    follower = Follower(gateway, 0.5)
    wait_until(lambda: len(follower.snapshots) >= 4, DEADLINE_S, "four snapshots")
    pauses = [after - before for before, after in zip(follower.times_s, follower.times_s[1:], strict=False)]
    assert sum(pauses) >= 0.45 * len(pauses)
    assert gateway.get("/v1/stream?every_s=-1").status_code == 422


@pytest.mark.slow
def test_a_reader_that_does_not_read_delays_nobody(site: Site, wait_until: WaitUntil) -> None:
    """The connection of a reader that does not read fills up.

    Others get answers and news, and the gateway keeps no backlog for it.
    """
    site.begin("--refresh-hz", "20")
    gateway = site.gateway()
    many = [{"type": "count", "name": f"counter/{number}", "unit": "u" * 20} for number in range(1_500)]
    assert gateway.post(*many).status_code == 200
    wait_until(lambda: len(gateway.get("/v1/snapshot").json()["counters"]) == 1_500, DEADLINE_S, "all counters")
    stuck = [socket.create_connection(gateway.address) for _ in range(5)]
    for connection in stuck:
        connection.sendall(b"GET /v1/stream?every_s=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    follower = Follower(gateway)
    wait_until(lambda: len(follower.snapshots) >= 60, DEADLINE_S, "sixty snapshots")
    before_bytes = resident_bytes(gateway.child.pid)
    size = len(gateway.get("/v1/snapshot").content)
    first = len(follower.snapshots)
    wait_until(lambda: len(follower.snapshots) >= first + 60, DEADLINE_S, "sixty more")
    for _ in range(20):
        assert gateway.count(1).status_code == 200
    grown = resident_bytes(gateway.child.pid) - before_bytes
    assert grown < 5 * 60 * size / 3, f"{grown} bytes for snapshots of {size}"
    wait_until(lambda: counters(follower.snapshots[-1]).get("n") == 20.0, DEADLINE_S, "news")
    for connection in stuck:
        connection.close()
    site.stop()
    follower.join(DEADLINE_S)
    assert follower.ended
    gateway.end()


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4_096


@pytest.mark.slow
def test_the_history_comes_in_pages(site: Site, wait_until: WaitUntil) -> None:
    """All intervals once, in order, and their counts add up."""
    site.begin()
    gateway = site.gateway()
    ends = time.monotonic() + 4.5
    sent = 0
    while time.monotonic() < ends:
        answer = gateway.post({"type": "count", "name": "n"}, {"type": "sample", "name": "s", "value": 7.0})
        assert answer.status_code == 200
        sent += 1
        time.sleep(0.02)

    def found() -> list[dict[str, Any]]:
        pages, start_ns = [], 0
        while start_ns is not None:
            page = gateway.get("/v1/history", params={"start_ns": start_ns, "level_s": 1}).json()
            pages.append(page)
            start_ns = page["next_ns"]
        return pages

    def total(pages: list[dict[str, Any]]) -> float:
        return sum(point["value"] for page in pages for each in page["intervals"] for point in each["counters"])

    pages = wait_until(lambda: (pages := found()) and total(pages) == sent and pages, DEADLINE_S, "all counts")
    keys = {(key["kind"], key["name"]) for key in pages[0]["keys"]}
    assert keys >= {("counter", "n"), ("series", "s")}
    intervals = [each for page in pages for each in page["intervals"]]
    assert len(intervals) >= 4
    starts = [each["start_ns"] for each in intervals]
    assert starts == sorted(set(starts))
    points = [point for each in intervals for point in each["series"]]
    assert sum(point["count"] for point in points) == sent
    assert {point["percentiles"]["99"] for point in points} == {7.0}
    later = gateway.get("/v1/history", params={"start_ns": starts[1], "level_s": 1}).json()
    assert [each["start_ns"] for each in later["intervals"]][:2] == starts[1:3]
    assert later["keys"] == pages[0]["keys"], "each page explains its indices"


def test_prometheus_can_read_the_page(site: Site, wait_until: WaitUntil) -> None:
    """Prometheus reads the page as text and as OpenMetrics, at each of its paths.

    It finds the gateway by itself.
    """
    site.begin()
    gateway = site.gateway()
    gateway.post(
        {"type": "count", "name": "n", "value": 3}, {"type": "sample", "name": "s", "value": 0.5, "unit": "s"}
    )
    wait_until(lambda: has(gateway, 3.0), DEADLINE_S, "the count")
    for path in ("/prometheus", "/metrics", "/metrics/"):
        answer = gateway.get(path)
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        samples = {sample.name: sample.value for family in parse_text(answer.text) for sample in family.samples}
        assert samples["n_total"] == 3.0
    openmetrics = gateway.get("/prometheus", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
    names = {family.name for family in parse_openmetrics(openmetrics.text)}
    assert "n" in names
    [group] = gateway.get("/prometheus/targets").json()
    assert group["targets"] == [gateway.url.removeprefix("http://")]
    assert group["labels"]["__metrics_path__"] == "/prometheus"
    assert gateway.get(group["labels"]["__metrics_path__"]).status_code == 200


def test_runs_are_listed(site: Site) -> None:
    """The live ones and those of the folder, and which of them is this gateway's."""
    site.begin()
    site.stop()
    site.begin()
    gateway = site.gateway()
    own, other = gateway.get("/v1/runs").json()["runs"]
    assert (own["live"], own["this"], own["state"], own["completeness"]) == (True, True, "LIVE", "")
    assert (other["live"], other["this"], other["state"]) == (False, False, "COMPLETE")
    assert own["run_id"] == gateway.get("/v1/snapshot").json()["run_id"]
