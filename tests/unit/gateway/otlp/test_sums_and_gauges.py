"""Sums, gauges and summaries of OTLP as counters and gauges."""

from __future__ import annotations

import math
import time

import pytest
from opentelemetry.proto.metrics.v1 import metrics_pb2
from tests.unit.gateway.otlp.recorded import (
    CUMULATIVE,
    DELTA,
    NOW_NS,
    Recorded,
    Value,
    gauge,
    number,
    state,
    sums,
    take,
    times,
)

from telemetry import limits
from telemetry.gateway.otlp import MetricState


def test_a_gauge_keeps_unit_labels_and_time() -> None:
    """The service is a label, and the time is that of the sender, on the monotonic clock."""
    recorded = Recorded()
    assert take(recorded, state(), gauge("temp", number(61.5, 40.0, core=1, hot=True), unit="Cel")) == (1, 0, "")
    assert recorded.values == [Value("temp", {"core": "1", "hot": "true", "service": "api"}, 61.5)]
    assert recorded.units() == {"temp": ("gauge", "°C")}
    [at_ns] = recorded.times_ns
    assert abs(at_ns - time.monotonic_ns() - (NOW_NS + 40 * 10**9 - time.time_ns())) < 10**9


def test_a_cumulative_sum_counts_differences() -> None:
    """Each stream counts for itself, and a repeated or older point adds nothing."""
    recorded, known = Recorded(), state()
    for at_s, a, b in ((1.0, 5, 100), (2.0, 8, 100), (2.0, 8, 100), (1.5, 6, 100), (3.0, 12, 107)):
        took = take(recorded, known, sums("hits", number(a, at_s, route="/a"), number(b, at_s, route="/b")))
        assert took == (2, 0, "")
    assert [each.value for each in recorded.values if each.labels["route"] == "/a"] == [5.0, 3.0, 4.0]
    assert [each.value for each in recorded.values if each.labels["route"] == "/b"] == [100.0, 7.0]
    assert recorded.units() == {"hits": ("counter", "")}


def test_differences_of_great_integers_are_exact() -> None:
    """A float would round both totals to the same number."""
    recorded, known = Recorded(), state()
    for at_s, total in ((1.0, 1 << 60), (2.0, (1 << 60) + 3)):
        take(recorded, known, sums("bytes", number(total, at_s), unit="By"))
    assert recorded.of("bytes") == [float(1 << 60), 3.0]
    assert recorded.units() == {"bytes": ("counter", "B")}


@pytest.mark.parametrize(
    ("start_s", "counted"),
    [
        pytest.param(0.0, [10.0, 2.0], id="starts with the gateway"),
        pytest.param(0.5, [10.0, 2.0], id="starts later"),
        pytest.param(-0.001, [2.0], id="starts before the gateway"),
        pytest.param(None, [2.0], id="has no start"),
        pytest.param(1.0, [2.0], id="has an unknown start"),
    ],
)
def test_the_first_point_counts_whole_if_the_gateway_heard_the_stream_from_its_start(
    start_s: float | None, counted: list[float]
) -> None:
    """Values from before may have been counted by a gateway that ran before this one."""
    recorded, known = Recorded(), state()
    for at_s, total in ((1.0, 10), (2.0, 12)):
        assert take(recorded, known, sums("hits", number(total, at_s, start_s=start_s))) == (1, 0, "")
    assert recorded.of("hits") == counted


def test_a_new_start_is_a_reset_and_two_processes_of_one_resource_are_two_streams() -> None:
    """Points with different starts never subtract from each other."""
    recorded, known = Recorded(), state()
    for at_s, start_s, total in ((2.0, 0.0, 10), (3.0, 0.5, 4), (4.0, 0.0, 11), (5.0, 0.5, 6), (6.0, 5.5, 1)):
        take(recorded, known, sums("hits", number(total, at_s, start_s=start_s)))
    assert recorded.of("hits") == [10.0, 4.0, 1.0, 2.0, 1.0]


def test_resources_scopes_and_services_are_streams_of_their_own() -> None:
    """Two processes of a service add up to one counter."""
    recorded, known = Recorded(), state()
    for at_s, total in ((1.0, 3), (2.0, 5)):
        for options in ({"pid": 1}, {"pid": 2}, {"pid": 1, "scope": "x"}, {"pid": 1, "service": "other"}):
            take(recorded, known, sums("hits", number(total, at_s)), **options)
    of_api = [each.value for each in recorded.values if each.labels == {"service": "api"}]
    assert of_api == [3.0, 3.0, 3.0, 2.0, 2.0, 2.0]
    assert [each.value for each in recorded.values if each.labels == {"service": "other"}] == [3.0, 2.0]


def test_a_total_that_shrinks_is_refused_and_is_the_new_base() -> None:
    """A total that shrinks loses only that point, and later points count from it."""
    recorded, known = Recorded(), state()
    took = [take(recorded, known, sums("hits", number(total, at))) for at, total in ((1.0, 9), (2.0, 4), (3.0, 6))]
    assert took == [(1, 0, ""), (0, 1, "'hits': it grew by -5, but a total only grows"), (1, 0, "")]
    assert recorded.of("hits") == [9.0, 2.0]


def test_a_delta_counts_as_it_is_but_not_twice() -> None:
    """A sender that had no answer repeats its request."""
    recorded, known = Recorded(), state()
    for start_s, at_s, value in ((0.0, 1.0, 5), (1.0, 2.0, 5), (1.0, 2.0, 5), (2.0, 3.0, 0), (3.0, 4.0, 2)):
        took = take(recorded, known, sums("hits", number(value, at_s, start_s=start_s), temporality=DELTA))
        assert took == (1, 0, "")
    assert recorded.of("hits") == [5.0, 5.0, 2.0]


def test_a_delta_counts_whenever_it_began() -> None:
    """A delta needs no earlier point."""
    recorded = Recorded()
    take(recorded, state(), sums("hits", number(5, 1.0, start_s=-50.0), temporality=DELTA))
    assert recorded.of("hits") == [5.0]


def test_a_sum_that_may_fall_is_a_gauge() -> None:
    """The gauge shows the value that the sum has."""
    recorded, known = Recorded(), state()
    for at_s, value in ((1.0, 9), (2.0, -4)):
        take(recorded, known, sums("queue", number(value, at_s), monotonic=False, unit="{item}"))
    assert recorded.of("queue") == [9.0, -4.0]
    assert recorded.units() == {"queue": ("gauge", "items")}


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (gauge("x", number(math.nan)), "'x': its value is nan, which is not a number"),
        (gauge("x", number(math.inf)), "'x': its value is inf, which is not a number"),
        (gauge("x", metrics_pb2.NumberDataPoint(**times(1.0, 0.0))), "'x': it has no value"),
        (gauge("", number(1)), "a name must not be empty"),
        (gauge("x" * 201, number(1)), "a name is longer than 200 characters: 'xxxxxxxxxxxxxxxxxxxx'… has 201"),
        (sums("x", number(math.nan)), "'x': its value is nan, which is not a number"),
        (sums("x", number(-1)), "'x': it grew by -1, but a total only grows"),
        (sums("x", number(-1), temporality=DELTA), "'x': it grew by -1, but a total only grows"),
        (sums("x", number(1), temporality=0), "'x': its temporality must be delta or cumulative"),
        (
            sums("x", number(1), temporality=DELTA, monotonic=False),
            "'x': a sum that also falls must have cumulative temporality, since a gauge shows its value",
        ),
        (gauge("x", number(1, **{f"k{at}": 1 for at in range(16)})), "'x' has 17 labels; the limit is 16"),
        (
            gauge("x", number(1, route="y" * 201)),
            "label 'route' of 'x' is longer than 200 characters: 'yyyyyyyyyyyyyyyyyyyy'… has 201",
        ),
        (gauge("taken", number(1)), "'taken' is already a counter, so it can't be a gauge"),
        (sums("taken", number(1), unit="s"), "'taken' is already defined with unit '', not 's'"),
        (
            gauge("x", number(1, -(time.monotonic() + 1_000))),
            "'x': its time is before this machine started, or too far in the future",
        ),
    ],
)
def test_only_a_wrong_point_is_refused(metric: metrics_pb2.Metric, reason: str) -> None:
    """The points around it are recorded, and the answer names the first reason."""
    recorded, known = Recorded(), state()
    take(recorded, known, sums("taken", number(1)))
    took = take(recorded, known, gauge("before", number(1)), metric, metric, gauge("after", number(2)))
    assert took == (2, 2, reason)
    assert [(each.name, each.value) for each in recorded.values] == [("taken", 1), ("before", 1), ("after", 2)]


def test_a_point_that_says_there_is_no_value_records_nothing() -> None:
    """Collectors send it for a target that is gone."""
    recorded = Recorded()
    point = metrics_pb2.NumberDataPoint(flags=1, **times(1.0, 0.0))
    assert take(recorded, state(), gauge("up", point), sums("hits", point)) == (2, 0, "")
    assert recorded.values == []
    assert recorded.definitions == []


def test_a_point_without_a_time_is_now() -> None:
    """The time of a gauge decides which value is the newest."""
    recorded = Recorded()
    begin_ns = time.monotonic_ns()
    take(recorded, state(), gauge("up", metrics_pb2.NumberDataPoint(as_int=1)))
    assert begin_ns <= recorded.times_ns[0] <= time.monotonic_ns()


def test_empty_attributes_and_a_missing_service_are_no_labels() -> None:
    """A label has a text."""
    recorded = Recorded()
    assert take(recorded, state(), gauge("up", number(1, zone="", a="b")), service="") == (1, 0, "")
    assert recorded.values == [Value("up", {"a": "b"}, 1.0)]


def test_an_attribute_named_service_is_kept() -> None:
    """An attribute `service` is kept, because it tells more about the point than the resource does."""
    recorded = Recorded()
    take(recorded, state(), gauge("up", number(1, service="db")))
    assert recorded.values == [Value("up", {"service": "db"}, 1.0)]


def test_a_summary_is_a_gauge_for_each_quantile_and_two_counters() -> None:
    """A quantile of no values is left out."""
    recorded, known = Recorded(), state()
    for at_s, count, total, p50 in ((1.0, 4, 8.0, 2.0), (2.0, 6, 13.0, math.nan)):
        point = metrics_pb2.SummaryDataPoint(count=count, sum=total, **times(at_s, 0.0))
        point.quantile_values.add(quantile=0.5, value=p50)
        point.quantile_values.add(quantile=0.99, value=9.0)
        metric = metrics_pb2.Metric(name="rpc", unit="s", summary=metrics_pb2.Summary(data_points=[point]))
        assert take(recorded, known, metric) == (1, 0, "")
    assert recorded.of("rpc.count") == [4.0, 2.0]
    assert recorded.of("rpc.sum") == [8.0, 5.0]
    quantiles = [(each.labels["quantile"], each.value) for each in recorded.values if each.name == "rpc"]
    assert quantiles == [("0.5", 2.0), ("0.99", 9.0), ("0.99", 9.0)]
    assert recorded.units()["rpc"] == ("gauge", "s")


def test_a_metric_without_data_is_nothing() -> None:
    """A metric without data is neither taken nor refused."""
    assert take(Recorded(), state(), metrics_pb2.Metric(name="x")) == (0, 0, "")


def test_points_beyond_the_instruments_of_a_process_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would drop their values; a sender is told instead."""
    monkeypatch.setattr(limits, "PRODUCER_IDS", 2)
    recorded = Recorded()
    took = take(recorded, state(), *(gauge(f"g{at}", number(at)) for at in range(4)))
    assert took == (2, 2, "'g2': the gateway has 2 instruments already; send fewer attributes")
    assert recorded.of("g1") == [1.0]


def test_the_state_is_bounded_and_a_forgotten_stream_does_not_count_twice() -> None:
    """A stream that comes back looks new, but it has been counted: its next point is a base."""
    recorded, known = Recorded(), MetricState(NOW_NS, numbers=16)
    for at_s in (1.0, 2.0, 3.0):
        for name in ("a", "b", "c"):
            take(recorded, known, sums(name, number(int(10 * at_s), at_s)))
            assert len(known) <= 2
    assert [sum(recorded.of(name)) for name in ("a", "b", "c")] == [10.0, 10.0, 10.0]
    take(recorded, known, sums("d", number(7, 9.0, start_s=8.0)))
    assert recorded.of("d") == [7.0]


def test_streams_of_other_temporality_or_unit_are_apart() -> None:
    """A sender may change its settings while it runs."""
    recorded, known = Recorded(), state()
    take(recorded, known, sums("hits", number(5, 1.0), temporality=CUMULATIVE))
    take(recorded, known, sums("hits", number(5, 1.0), temporality=DELTA))
    assert recorded.of("hits") == [5.0, 5.0]
