"""Events of RL-Insight as instruments and spans, read back from the files of a real run."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from telemetry.history.result import load_report
from telemetry.integrations.rl_insight import _Client
from telemetry.integrations.rl_insight.events import EVENTS
from telemetry.wire.report import Report

PROGRAM = """
import json, sys, time
import telemetry
from telemetry import limits
from telemetry.integrations.rl_insight.events import EVENTS
from telemetry.integrations.rl_insight.targets import record_targets

class Unprintable:
    def __str__(self):
        raise RuntimeError("no text")

def metric(kind, name, value, documentation="", **labels):
    EVENTS.apply({"kind": kind, "name": name, "documentation": documentation, "value": value, "labels": labels})

def trace(name, start_ns, end_ns, **attributes):
    EVENTS.apply({
        "kind": "trace", "name": name, "start_time_ns": start_ns, "end_time_ns": end_ns, "attributes": attributes
    })

with telemetry.start("job", dir=sys.argv[1]):
    metric("counter", "steps", 2.0, worker="w0")
    metric("counter", "steps", 3, worker="w0")
    metric("counter", "steps", -4.0, worker="w0")
    metric("counter", "steps", 5.0, other=True)
    metric("gauge", "a/b", -1.5, worker=3, ratio=0.5, none=None)
    metric("gauge", "steps", 7.0)
    for sample in (12.0, 900.0, 0.000_000_001, -30.0, -40.0, 2e12):
        metric("histogram", "latency_ms", sample, "Latency of a step")
    metric("histogram", "latency_ms", "no number")
    for session in range(limits.EVENT_LABEL_SETS + 2):
        metric("gauge", "info", 1.0, session=session)
        metric("counter", "sessions", 1.0, session=session)
    metric("gauge", "wide", 1.0, **{f"label{number:02}": number for number in range(17)})
    EVENTS.without_gauges(metric, "gauge", "muted", 1.0)
    EVENTS.without_gauges(metric, "counter", "not_muted", 1.0)
    metric("gauge", "kv_cache_bytes", 4096.0)
    metric("counter", "idle_s", 0.5)
    metric("gauge", "tokens_per_s", 90.0)
    metric("gauge", "unprintable", 1.0, label=Unprintable())
    metric("summary", "unknown_kind", 1.0)
    EVENTS.apply({"kind": "gauge"})

    wall_ns, mono_ns = time.time_ns(), time.monotonic_ns()
    second = 1_000_000_000
    trace("rollout", wall_ns - 2 * second, wall_ns - second, state_lane_id=4, step=3, gone=None, project="")
    many = {f"tool{number:02}": "x" for number in range(20)}
    trace("turn", wall_ns, wall_ns, sample="1", **many, content="é" * 300, state_lane_id="lane", turn=0)
    trace("backwards", wall_ns, wall_ns - 1)
    record_targets(["h:8000", "h:8001"], "vllm", [{"replica": 0}, None])
    record_targets(["h:9000"], None, None)
print(json.dumps(mono_ns))
"""


def test_another_client_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that it refuses is not recorded."""
    order: list[str] = []

    class Refusing:
        def apply_event(self, event: dict[str, Any]) -> None:
            order.append("other")
            if event["name"] == "refused":
                raise OSError("no server")

    monkeypatch.setattr(EVENTS, "apply", lambda event: order.append(event["name"]))
    client = _Client(Refusing())
    client.apply_event({"name": "taken"})
    with pytest.raises(OSError, match="no server"):
        client.apply_event({"name": "refused"})
    assert order == ["other", "taken", "other"]


@dataclass
class Ran:
    report: Report
    records: list[dict[str, Any]]
    mono_ns: int
    errors: str

    def of(self, kind: str, name: str) -> list[dict[str, Any]]:
        return [each for each in self.records if (each.get("type"), each.get("name")) == (kind, name)]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("rl")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    (directory,) = (path for path in folder.iterdir() if path.name.startswith("job-"))
    lines = (directory / "records" / "records.jsonl").read_text().splitlines()
    return Ran(load_report(directory), [json.loads(line) for line in lines], int(done.stdout), done.stderr)


def test_counts_are_added_up_by_labels(ran: Ran) -> None:
    """A name may have any sets of labels."""
    snapshot = ran.report.snapshot
    steps = {tuple(stat.labels.items()): stat.value for stat in snapshot.counters if stat.name == "steps"}
    assert steps == {(("worker", "w0"),): 5.0, (("other", "True"),): 5.0}


def test_negative_amounts_and_samples_are_kept(ran: Ran) -> None:
    """Negative amounts and samples lose their sign, and a suffix of the name, `below_zero`, says so."""
    snapshot = ran.report.snapshot
    (below,) = (stat for stat in snapshot.counters if stat.name == "steps.below_zero")
    assert (below.value, below.labels) == (4.0, {"worker": "w0"})
    series = ran.report.series("latency_ms.below_zero")
    assert (series.count, series.min, series.max) == (2, 30.0, 40.0)
    assert "negative" not in snapshot.accounting.dropped


def test_the_end_of_a_name_is_its_unit(ran: Ran) -> None:
    """The end of a name gives the unit, also for negative samples.

    The rule is that for torchelastic's metrics, and a rate has no unit.
    """
    snapshot = ran.report.snapshot
    stats = (*snapshot.series, *snapshot.gauges, *snapshot.counters)
    units = {stat.name: stat.unit for stat in stats if stat.unit}
    expected = {"latency_ms": "ms", "latency_ms.below_zero": "ms", "kv_cache_bytes": "bytes", "idle_s": "s"}
    assert {name: unit for name, unit in units.items() if not name.startswith("span")} == expected


def test_percentiles_are_right_at_any_scale(ran: Ran) -> None:
    """Percentiles are right for values from billionths to trillions in one series."""
    series = ran.report.series("latency_ms")
    assert (series.count, series.min, series.max) == (4, 0.000_000_001, 2e12)
    assert series.percentiles["50"] == 12.0
    assert series.percentiles["75"] == 900.0
    assert series.percentiles["99"] == 2e12


def test_a_value_that_is_no_number_is_counted(ran: Ran) -> None:
    """The program goes on."""
    assert ran.report.snapshot.accounting.dropped_by_producer["not_a_number"] == 1


def test_labels_of_any_type_become_text(ran: Ran) -> None:
    """A label without a value is kept, too."""
    (gauge,) = (stat for stat in ran.report.snapshot.gauges if stat.name == "a/b")
    assert (gauge.value, gauge.labels) == (-1.5, {"worker": "3", "ratio": "0.5", "none": "None"})


def test_one_name_for_two_kinds_keeps_both(ran: Ran) -> None:
    """The second kind gets a longer name."""
    (gauge,) = (stat for stat in ran.report.snapshot.gauges if stat.name == "steps.gauge")
    assert gauge.value == 7.0


def test_unbounded_labels_are_bounded_and_not_lost(ran: Ran) -> None:
    """Counts are added up elsewhere, and gauges become texts."""
    snapshot = ran.report.snapshot
    sessions = [stat for stat in snapshot.counters if stat.name == "sessions"]
    assert len(sessions) == 201
    assert sum(stat.value for stat in sessions) == 202.0
    assert [stat.value for stat in sessions if stat.labels == {"labels": "other"}] == [2.0]
    assert len([stat for stat in snapshot.gauges if stat.name == "info"]) == 200
    assert [json.loads(each["text"]) for each in ran.of("text", "info")] == [
        {"value": 1.0, "session": "200"},
        {"value": 1.0, "session": "201"},
    ]
    assert "'info' has more than 200 sets of labels" in ran.errors


def test_labels_beyond_the_limit_are_reported(ran: Ran) -> None:
    """The first ones are recorded."""
    (wide,) = (stat for stat in ran.report.snapshot.gauges if stat.name == "wide")
    assert len(wide.labels) == 16
    assert "'wide' has 17 labels; the first 16 are recorded" in ran.errors


def test_only_gauges_can_be_left_out(ran: Ran) -> None:
    """Counts of the same thread are recorded."""
    snapshot = ran.report.snapshot
    assert "muted" not in {stat.name for stat in snapshot.gauges}
    assert "not_muted" in {stat.name for stat in snapshot.counters}


def test_documentation_is_kept_unless_it_is_the_default(ran: Ran) -> None:
    """The documentation of a name becomes a parameter once, unless it is the default text."""
    assert ran.report.snapshot.params["rl_insight.help.latency_ms"] == "Latency of a step"
    assert "rl_insight.help.steps" not in ran.report.snapshot.params


def test_bad_events_are_reported_once_and_never_raise(ran: Ran) -> None:
    """Each with its name and its error."""
    assert ran.errors.count("'unprintable' is not recorded: RuntimeError: no text") == 1
    assert ran.errors.count("an event of the unknown kind 'summary' is not recorded") == 1
    assert ran.errors.count("None is not recorded: KeyError: 'name'") == 1


def test_a_span_has_the_time_lane_and_attributes_of_its_trace(ran: Ran) -> None:
    """Unix times become times of the monotonic clock; attributes without a value are left out."""
    (span,) = ran.of("span", "rollout")
    assert span["end_ns"] - span["start_ns"] == 1_000_000_000
    assert abs(span["start_ns"] - (ran.mono_ns - 2_000_000_000)) < 100_000_000
    assert span["track"] == "4"
    assert span["labels"] == {"state_lane_id": "4", "step": "3", "project": ""}


def test_durations_of_spans_are_series(ran: Ran) -> None:
    """Durations of spans become series without self time, whether or not the spans fit as they are."""
    rollout = ran.report.series("span.rollout")
    assert (rollout.unit, rollout.count, rollout.min, rollout.max) == ("ms", 1, 1_000.0, 1_000.0)
    assert ran.report.series("span.turn").count == 1
    assert "span.backwards" not in {stat.name for stat in ran.report.snapshot.series}
    assert not [stat for stat in ran.report.snapshot.counters if stat.name.startswith("span_self.")]


def test_attributes_that_do_not_fit_become_a_text(ran: Ran) -> None:
    """The span keeps its lane, and the text has the rest in full."""
    (span,) = ran.of("span", "turn")
    (text,) = ran.of("text", "turn.attributes")
    rest = json.loads(text["text"])
    assert len(span["labels"]) == 16
    assert next(iter(span["labels"])) == "state_lane_id"
    assert rest.pop("state_lane_id") == "lane"
    assert rest["content"] == "é" * 300
    assert rest["sample"] == "1"
    assert len(rest | span["labels"]) == 24
    assert text["time_ns"] == span["end_ns"]


def test_a_span_that_ends_before_it_starts_is_counted(ran: Ran) -> None:
    """A span that ends before it starts is left out, counted as dropped and reported."""
    assert not ran.of("span", "backwards")
    assert "span 'backwards' is ignored" in ran.errors
    assert ran.report.snapshot.accounting.dropped_by_producer["unencodable"] == 1


def test_scrape_targets_are_parameters(ran: Ran) -> None:
    """Scrape targets become parameters whose values are the labels of the targets."""
    params = ran.report.snapshot.params
    assert params["rl_insight.scrape.vllm.h:8000"] == "replica=0"
    assert params["rl_insight.scrape.vllm.h:8001"] == ""
    assert params["rl_insight.scrape.trainer_metrics.h:9000"] == ""
