"""A namespace before the names of instruments."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from tests.unit.backends.prometheus.given import SNAPSHOT

from telemetry.backends.backend import NotConfigured
from telemetry.backends.prometheus.backend import PrometheusBackend, PrometheusOptions
from telemetry.backends.prometheus.families import PrometheusFamily, families
from telemetry.backends.prometheus.names import Names, unit_of
from telemetry.backends.prometheus.text import plain
from telemetry.wire.events import Kind
from telemetry.wire.snapshot import AxisStat, CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

NAMESPACE = "rl_insight_monitor"
KINDS: list[Kind] = ["counter", "gauge", "series"]


def made(snapshot: MetricsSnapshot, namespace: str = NAMESPACE) -> dict[str, PrometheusFamily]:
    return {family.name: family for family in families(snapshot, "here", Names(namespace=namespace))}


def sample_names(page: bytes) -> set[str]:
    lines = page.decode().splitlines()
    return {line.partition(" ")[0].partition("{")[0] for line in lines if not line.startswith("#")}


@pytest.mark.parametrize(
    ("kind", "name", "unit", "wanted"),
    [
        ("gauge", "actor_loss", "", "rl_insight_monitor_actor_loss"),
        ("gauge", "actor/loss", "", "rl_insight_monitor_actor_loss"),
        ("gauge", "2nd", "", "rl_insight_monitor_2nd"),
        ("gauge", "queue/count", "", "rl_insight_monitor_queue_count"),
        ("counter", "steps_total", "", "rl_insight_monitor_steps"),
        ("series", "latency", "ms", "rl_insight_monitor_latency_seconds"),
        ("series", "latency_ms", "ms", "rl_insight_monitor_latency_ms"),
        ("gauge", "memory.bytes", "bytes", "rl_insight_monitor_memory_bytes"),
        ("gauge", "telemetry_x", "", "rl_insight_monitor_telemetry_x"),
        ("gauge", "λ", "", "U__rl__insight__monitor___3bb_"),
    ],
)
def test_it_stands_before_each_name(kind: Kind, name: str, unit: str, wanted: str) -> None:
    """The rules for characters, units and suffixes stay."""
    names = Names(namespace=NAMESPACE)
    assert names.family(kind, name, names.unit_of(name, unit)) == wanted


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.text("a_/λ1", min_size=1)), max_size=20))
def test_names_stay_distinct_and_the_next_process_has_the_same(found: list[tuple[Kind, str]]) -> None:
    """Names in a namespace stay distinct, and the next process has the same, whatever the names are."""
    names = Names(namespace="a")
    chosen = {who: names.family(*who, unit_of("")) for who in found}
    assert len(set(chosen.values())) == len(chosen)
    assert all(family.startswith(("a_", "U__a__")) for family in chosen.values())
    later = Names(names.claims(), "a")
    contested = {(claim.kind, claim.name) for claim in names.claims()}
    assert all(later.family(*who, unit_of("")) == chosen[who] for who in contested)


def test_names_are_those_that_prometheus_client_exports() -> None:
    """Names are those that `prometheus_client` exports, so that dashboards for RL-Insight find them."""
    registry = CollectorRegistry()
    for counter in ("train_step", "steps_total"):
        Counter(counter, "-", namespace=NAMESPACE, registry=registry)
    Gauge("actor_loss", "-", namespace=NAMESPACE, registry=registry)
    Histogram("step_latency_ms", "-", namespace=NAMESPACE, registry=registry)
    theirs = {name for name in sample_names(generate_latest(registry)) if not name.endswith("_created")}
    snapshot = replace(
        SNAPSHOT,
        counters=[CounterStat(name="train_step"), CounterStat(name="steps_total")],
        gauges=[GaugeStat(name="actor_loss", value=0.5)],
        series=[
            SeriesStat(name="step_latency_ms", unit="ms", count=1, total=5.0, histogram=[(5, 1)], cell_unit=1e-6)
        ],
        axes=[],
    )
    ours = sample_names(plain(made(snapshot).values()))
    assert {name for name in ours if not name.startswith("telemetry_")} == theirs
    assert b"rl_insight_monitor_step_latency_ms_sum 5.0\n" in plain(made(snapshot).values())


def test_step_values_are_gauges_of_their_own_names() -> None:
    """Values of steps are gauges with names of their own.

    Without a namespace they are not, since their names are those of the program.
    """
    snapshot = replace(
        SNAPSHOT,
        counters=[],
        series=[],
        gauges=[GaugeStat(name="depth", value=1.0)],
        axes=[
            AxisStat(name="train", values={"actor/loss": 0.5, "depth": 2.0, "bad": None}),
            AxisStat(name="val", values={"actor/loss": 0.7}),
        ],
    )
    found = made(snapshot)
    assert found["rl_insight_monitor_actor_loss"].samples == [
        ((("axis", "train"),), 0.5),
        ((("axis", "val"),), 0.7),
    ]
    assert found["rl_insight_monitor_depth"].samples == [((), 1.0)]
    assert math.isnan(found["rl_insight_monitor_bad"].samples[0][1])
    assert found["telemetry_step_value"].samples[0] == ((("axis", "train"), ("name", "actor/loss")), 0.5)
    assert "actor_loss" not in made(snapshot, "")


def test_metrics_of_the_run_keep_their_names() -> None:
    """All others get the namespace."""
    own = {name for name in made(SNAPSHOT, "") if name.startswith("telemetry_")}
    assert own == {name for name in made(SNAPSHOT) if name.startswith("telemetry_")}
    assert made(SNAPSHOT).keys() - own == {
        *(f"{NAMESPACE}_{name}" for name in made(SNAPSHOT, "").keys() - own),
        f"{NAMESPACE}_train_loss",
        f"{NAMESPACE}_nan",
    }


@pytest.mark.parametrize("namespace", ["2nd", "a-b", "telemetry", "telemetry_x", "U__a", "ä", "a" * 101])
def test_what_names_may_not_begin_with_is_refused(namespace: str, tmp_path: Path) -> None:
    """A namespace that names can't begin with is refused with a reason, before the run begins."""
    options: Any = PrometheusOptions(port=0, namespace=namespace)
    with pytest.raises(NotConfigured, match="can't be a namespace"):
        PrometheusBackend(options, tmp_path)
