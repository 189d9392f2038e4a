"""Families about the run itself: producers, writers, the aggregator, and values of ranks."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from tests.backends.reading_prometheus import TEXT, get, samples
from tests.unit.backends.prometheus.given import SNAPSHOT

from telemetry.backends.backend import RunFacts
from telemetry.backends.items import Live, Step
from telemetry.backends.prometheus import PrometheusBackend
from telemetry.backends.prometheus.backend import PrometheusOptions
from telemetry.backends.prometheus.families import HostFacts, Labels, run_families
from telemetry.wire.collectors import COLLECTORS
from telemetry.wire.snapshot import BackendStat, MetricsSnapshot, NodeStat, ProducerStat, SelfCost

RANK = ProducerStat(
    producer="p1",
    name="train",
    rank=3,
    emitted=10,
    received=8,
    applied=6,
    dropped={"negative": 1},
    dropped_by_producer={"buffer_full": 2},
    waiting=1,
    lag_s=0.25,
    last_event_ns=1_790_000_009_000_000_000,
)
OTHER = ProducerStat(producer="p2", emitted=5, received=5, applied=5)
COLLECTOR = ProducerStat(producer=f"{COLLECTORS}1", last_event_ns=1_790_000_010_000_000_000)
WRITER = BackendStat(
    name="wandb", state="retrying", queued=7, written=9, dropped={"a": 1, "b": 2}, failures=4, restarts=5
)


def made(snapshot: MetricsSnapshot, beside: HostFacts | None = None) -> dict[str, dict[Labels, float]]:
    """Family → labels → value."""
    return {one.name: dict(one.samples) for one in run_families(snapshot, "here", beside or HostFacts())}


def test_each_producer_has_its_account() -> None:
    """Lost is what was dropped on either side or never arrived; a producer without a rank has no such label."""
    found = made(replace(SNAPSHOT, producers=[RANK, OTHER]))
    rank = (("process", "train"), ("producer", "p1"), ("rank", "3"))
    other = (("process", ""), ("producer", "p2"))
    assert found["telemetry_producer_received"] == {rank: 8.0, other: 5.0}
    assert found["telemetry_producer_lost"] == {rank: 3.0, other: 0.0}
    assert found["telemetry_producer_lag_seconds"] == {rank: 0.25}
    assert "telemetry_producer_received" not in made(replace(SNAPSHOT, producers=[]))


def test_the_newest_event_is_one_of_the_job() -> None:
    """Collectors go on while a job hangs. A run of nodes has the newest of its intervals."""
    alone = replace(SNAPSHOT, producers=[RANK, COLLECTOR], nodes=[])
    assert made(alone)["telemetry_run_last_event_time_seconds"] == {(): 1_790_000_009.0}
    nodes = [NodeStat(node="n1", interval_ns=1_790_000_012_000_000_000), NodeStat(node="n2")]
    assert made(replace(alone, nodes=nodes))["telemetry_run_last_event_time_seconds"] == {(): 1_790_000_012.0}
    none_yet = replace(alone, producers=[COLLECTOR])
    assert "telemetry_run_last_event_time_seconds" not in made(none_yet)


def test_each_writer_has_one_state_and_its_account() -> None:
    """Dropped is the sum over reasons."""
    found = made(replace(SNAPSHOT, backends=[WRITER]))
    states = {dict(labels)["state"]: value for labels, value in found["telemetry_backend_state"].items()}
    assert {word for word, value in states.items() if value} == {"retrying"}
    assert {"failed", "undelivered", "done"} <= states.keys()
    own = (("backend", "wandb"),)
    numbers = {name: found[f"telemetry_backend_{name}"][own] for name in ("queued", "written", "dropped")}
    assert numbers == {"queued": 7.0, "written": 9.0, "dropped": 3.0}
    assert (found["telemetry_backend_failures"][own], found["telemetry_backend_restarts"][own]) == (4.0, 5.0)
    assert "telemetry_backend_state" not in made(SNAPSHOT)


def test_the_aggregator_says_what_it_costs() -> None:
    """The disk is left out if nobody can read it."""
    found = made(replace(SNAPSHOT, cost=SelfCost(cpu_s=1.5, rss_bytes=2**20)), HostFacts(disk=(5, 100)))
    assert found["telemetry_aggregator_cpu_seconds"] == {(): 1.5}
    assert found["telemetry_aggregator_memory_bytes"] == {(): 2.0**20}
    assert found["telemetry_run_disk_free_bytes"] == {(): 5.0}
    assert found["telemetry_run_disk_size_bytes"] == {(): 100.0}
    assert "telemetry_run_disk_free_bytes" not in made(SNAPSHOT)


def test_ranks_have_the_values_of_the_newest_step(tmp_path: Path) -> None:
    """Steps arrive beside snapshots; a name that is missing in the newest step keeps its value."""
    backend = PrometheusBackend(PrometheusOptions(port=0, targets="none"), tmp_path)
    backend.open(RunFacts("r1", "job", 0, tmp_path, host="here"), {})
    try:
        old = {"work": [(0, 1.0), ("p9", 2.0)], "wait": [(0, 0.5)]}
        backend.write([Step(key="1", time_ns=0, axis="train", step=1, values={}, ranks=old)])
        backend.write([Step(key="2", time_ns=0, axis="train", step=2, values={"loss": 1.0})])
        new = {"work": [(0, 3.0)]}
        backend.write([Step(key="3", time_ns=0, axis="train", step=3, values={}, ranks=new)])
        backend.write([Live(key="s", time_ns=0, snapshot=SNAPSHOT)])
        found = samples(*get(backend.where(), TEXT))
    finally:
        backend.close(final=False)
    values = {
        (dict(labels)["name"], dict(labels)["rank"]): value
        for (name, labels), value in found.items()
        if name == "telemetry_step_rank_value"
    }
    assert values == {("work", "0"): 3.0, ("wait", "0"): 0.5}
    assert found["telemetry_run_disk_size_bytes", frozenset()] > found["telemetry_run_disk_free_bytes", frozenset()]
