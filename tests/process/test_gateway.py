"""The gateway's word: what it calls recorded is in the run, whatever happens to the aggregator or to itself."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.process.conftest import DEADLINE_S
from tests.process.gateways import Gateway, Site, counters
from tests.process.gateways import site as site  # noqa: PLC0414 – a fixture

WaitUntil = Callable[..., Any]
CONFIRM_S = 2.0


def batch(at_ns: int) -> list[dict[str, Any]]:
    """Return events of all types."""
    return [
        *({"type": "sample", "name": "latency", "value": float(value), "unit": "ms"} for value in range(1, 100)),
        {"type": "count", "name": "n", "value": 2.5},
        {"type": "count", "name": "n", "labels": {"route": "/a"}},
        {"type": "gauge", "name": "temperature", "value": 61.5, "unit": "°C"},
        {"type": "expect", "name": "latency", "total": 200},
        {"type": "mark", "text": "deployed", "labels": {"version": "2"}, "time_ns": at_ns},
        {"type": "params", "values": {"model": "tiny", "lr": 0.5}},
        {"type": "step", "step": 1, "values": {"loss": 0.5, "lr": None}},
        {"type": "end_step", "step": 1},
        {"type": "step", "step": 9, "values": {"accuracy": 0.75}, "axis": "eval"},
        {"type": "end_step", "step": 9, "axis": "eval"},
        {"type": "span", "name": "load", "start_ns": at_ns, "end_ns": at_ns + 250_000_000, "track": "gpu0"},
        {"type": "text", "name": "sample", "text": "hello", "step": 1},
        {"type": "artifact", "name": "plot", "uri": "s3://b/plot.png", "kind": "image", "step": 1},
    ]


def test_a_run_without_room_is_no_success(site: Site) -> None:
    """The record log is full: texts and steps are dropped, which the answer says; counts have room."""
    site.begin(environ={"TELEMETRY_RECORDS__CAP_BYTES": str(1 << 20)})
    gateway = site.gateway()
    text = {"type": "text", "name": "sample", "text": "x" * 4_000}
    answers = [gateway.post(*[text] * 50).status_code for _ in range(12)]
    assert set(answers) == {200, 507}
    assert answers == sorted(answers)
    full = gateway.post(text)
    assert full.status_code == 507
    assert "1 event as records_full" in full.json()["message"]
    step = {"step": 1, "metric_name": "loss", "metric_value": 0.5}
    assert gateway.client.post("/metrics/log_metric", json=step).status_code == 507
    assert gateway.count().status_code == 200
    final = site.stop()
    assert counters(final)["n"] == 1
    assert final["completeness"] == "lossy"


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_events_arrive_exactly(site: Site, form: str) -> None:
    """Every type, as the report then has it."""
    site.begin()
    gateway = site.gateway()
    at_ns = time.time_ns() - 1_000_000_000
    body = {"events": batch(at_ns)}
    if form == "json":
        answer = gateway.client.post("/v1/events", json=body)
        found = answer.json()
    else:
        headers = {"Content-Type": "application/msgpack", "Accept": "application/msgpack"}
        answer = gateway.client.post("/v1/events", content=msgspec.msgpack.encode(body), headers=headers)
        found = msgspec.msgpack.decode(answer.content)
    assert answer.status_code == 200, answer.text
    assert (found["status"], found["recorded"], found["refused"]) == ("success", len(body["events"]), [])
    final = site.stop()
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete")
    assert final["accounting"]["dropped"] == {}
    by_labels = {tuple(stat["labels"].items()): stat["value"] for stat in final["counters"] if stat["name"] == "n"}
    assert by_labels == {(): 2.5, (("route", "/a"),): 1.0}
    series = {stat["name"]: stat for stat in final["series"]}
    assert (series["latency"]["count"], series["latency"]["total"], series["latency"]["unit"]) == (
        99,
        4_950.0,
        "ms",
    )
    assert series["latency"]["percentiles"]["50"] == 50.0
    assert (series["span.load"]["count"], series["span.load"]["total"]) == (1, 250.0)
    [gauge] = final["gauges"]
    assert (gauge["name"], gauge["value"], gauge["unit"]) == ("temperature", 61.5, "°C")
    [mark] = final["marks"]
    assert (mark["text"], mark["labels"]) == ("deployed", {"version": "2"})
    assert abs(mark["time_ns"] - at_ns) < 50_000_000
    assert final["params"] == {"model": "tiny", "lr": 0.5}
    axes = {stat["name"]: (stat["newest"], stat["values"]) for stat in final["axes"]}
    assert axes == {"step": (1, {"loss": 0.5, "lr": None}), "eval": (9, {"accuracy": 0.75})}
    records = (site.folder / "runs/latest/records/records.jsonl").read_text()
    for text in ('"hello"', '"s3://b/plot.png"', '"gpu0"'):
        assert records.count(text) == 1


def test_recorded_means_in_the_journal(site: Site) -> None:
    """The aggregator is killed right after the answer: its result has the events all the same."""
    site.begin()
    gateway = site.gateway()
    for number in range(1, 6):
        assert gateway.count(number).status_code == 200
    site.kill()
    code, _, err = site.run("recover", "latest")
    assert code == 0, err
    assert counters(site.final()) == {"n": 15.0}


@pytest.mark.slow
def test_while_the_aggregator_stands_still_the_answers_say_so(site: Site, wait_until: WaitUntil) -> None:
    """First "accepted", then "not now". What was accepted arrives once; what was refused was not recorded."""
    site.begin()
    gateway = site.gateway()
    assert gateway.get("/v1/snapshot").status_code == 200
    assert gateway.count(1).status_code == 200
    site.aggregator.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    answer = gateway.count(10)
    assert answer.status_code == 202, answer.text
    assert answer.json()["status"] == "pending"
    assert time.monotonic() - begun >= CONFIRM_S

    def refusal() -> Any:
        found = gateway.count(1_000)
        if found.status_code == 202:
            accepted.append(1_000)
            return None
        return found

    accepted: list[int] = []
    refused = wait_until(refusal, DEADLINE_S, "a refusal")
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) >= 1
    assert "nothing was recorded" in refused.json()["message"]
    begun = time.monotonic()
    assert gateway.count(1_000).status_code == 503
    assert gateway.get("/v1/snapshot").status_code == 200
    assert time.monotonic() - begun < CONFIRM_S, "neither waits for the aggregator"
    site.aggregator.send_signal(signal.SIGCONT)
    wait_until(lambda: gateway.count(100).status_code == 200, DEADLINE_S, "a new confirmation")
    final = site.stop()
    assert final["completeness"] == "complete"
    assert counters(final)["n"] == 111 + sum(accepted)


@pytest.mark.slow
def test_an_aggregator_that_is_killed_and_resumed_loses_nothing(site: Site, wait_until: WaitUntil) -> None:
    """Clients go on meanwhile. Confirmed events are counted once, refused ones never."""
    site.begin()
    gateway = site.gateway()
    outcomes: list[tuple[int, int]] = []
    stop = threading.Event()

    def load(first: int) -> None:
        with Gateway(gateway.child, gateway.url).client as client:
            number = first
            while not stop.wait(0.005):
                body = {"events": [{"type": "count", "name": f"n{number}"}]}
                outcomes.append((number, client.post("/v1/events", json=body).status_code))
                number += 4

    threads = [threading.Thread(target=load, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()

    def more(status: int) -> None:
        before = answers(status)
        wait_until(lambda: answers(status) >= before + 20, DEADLINE_S, f"answers {status}")

    def answers(status: int) -> int:
        return sum(found == status for _, found in outcomes)

    for outage in (202, 503):
        more(200)
        site.kill()
        wait_until(lambda: answers(outage), DEADLINE_S, f"an answer {outage}")  # noqa: B023 – called at once
        site.resume()
    more(200)
    stop.set()
    for thread in threads:
        thread.join()
    found = counters(site.stop())
    assert {status for _, status in outcomes} <= {200, 202, 503}
    for number, status in outcomes:
        assert found.get(f"n{number}", 0.0) == (0.0 if status == 503 else 1.0), (number, status)


def test_many_clients_share_a_confirmation(site: Site) -> None:
    """Each of them gets an answer for its own events, and all add up."""
    site.begin()
    gateway = site.gateway()
    statuses: list[int] = []

    def load() -> None:
        with Gateway(gateway.child, gateway.url).client as client:
            for _ in range(20):
                body = {"events": [{"type": "count", "name": "n"}, {"type": "sample", "name": "s", "value": 1}]}
                statuses.append(client.post("/v1/events", json=body).status_code)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 160
    final = site.stop()
    assert counters(final)["n"] == 160
    assert final["series"][0]["count"] == 160
    assert gateway.end().count("\n") == 0


def test_two_gateways_serve_one_run(site: Site) -> None:
    """One of them is killed and another takes its place: everything that was confirmed is in the result."""
    site.begin()
    first, second = site.gateway(), site.gateway()
    assert first.count(1).status_code == second.count(10).status_code == 200
    first.child.kill()
    first.child.communicate()
    third = site.gateway("--listen", first.url.removeprefix("http://"))
    assert third.url == first.url
    assert third.count(100).status_code == second.count(1_000).status_code == 200
    final = site.stop()
    assert counters(final)["n"] == 1_111
    names = [producer["name"] for producer in final["producers"]]
    assert names == ["gateway"] * 3
    second.end()
    third.end()


def test_a_gateway_that_is_told_to_end_leaves_the_run(site: Site) -> None:
    """A gateway that is told to end sends what it has and says so. The run goes on without it."""
    site.begin()
    leaving, staying = site.gateway(), site.gateway()
    assert leaving.count(1).status_code == 200
    leaving.child.send_signal(signal.SIGTERM)
    assert leaving.end() == ""
    assert staying.count(10).status_code == 200
    final = site.stop()
    assert (final["completeness"], counters(final)["n"]) == ("complete", 11)


def test_a_bad_event_is_named_and_the_others_are_recorded(site: Site) -> None:
    """A value that is not finite costs only itself; a batch of nothing else is an error."""
    site.begin()
    gateway = site.gateway()
    text = '{"events": [{"type": "count", "name": "n"}, {"type": "gauge", "name": "g", "value": NaN}]}'
    answer = gateway.client.post("/v1/events", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    assert answer.json()["status"] == "partial"
    assert answer.json()["refused"] == [{"index": 1, "reason": "the value is not finite"}]
    refused = gateway.post({"type": "count", "name": "n", "value": -1})
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["loc"] == ["body", "events", 0]
    wrong = gateway.post({"type": "count", "name": "n"}, {"type": "step", "step": 1, "values": {"loss": "low"}})
    assert wrong.status_code == 422
    assert wrong.json()["message"].startswith("body.events.1.values.loss: ")
    final = site.stop()
    assert counters(final) == {"n": 1.0}
    assert final["gauges"] == []
    assert final["axes"] == []


def test_the_end_of_the_run_under_load_is_told_truly(site: Site, wait_until: WaitUntil) -> None:
    """Events that were confirmed are in the result; events that were refused because the run is over are not.

    An event that met the end may be in doubt. The answer then says so.
    """
    site.begin()
    gateway = site.gateway()
    outcomes: list[tuple[int, int]] = []

    def load(first: int) -> None:
        with Gateway(gateway.child, gateway.url).client as client:
            for number in range(first, 1_000_000, 4):
                body = {"events": [{"type": "count", "name": f"n{number}"}]}
                answer = client.post("/v1/events", json=body)
                outcomes.append((number, answer.status_code))
                if answer.status_code == 410:
                    doubtful.extend([number] * ("may not be recorded" in answer.json()["message"]))
                    return

    doubtful: list[int] = []
    threads = [threading.Thread(target=load, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(outcomes) > 100, DEADLINE_S, "a hundred answers")
    found = counters(site.stop())
    for thread in threads:
        thread.join(DEADLINE_S)
    assert sorted(status for _, status in outcomes)[-4:] == [410] * 4
    for number, status in outcomes:
        if status in (200, 410) and number not in doubtful:
            assert found.get(f"n{number}", 0.0) == float(status == 200), (number, status)
