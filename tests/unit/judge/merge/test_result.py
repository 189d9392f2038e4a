"""All of a merged result that is not a series."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.judge.merge.conftest import SECOND, MakeRun

from telemetry.judge.merge import Input, gather
from telemetry.judge.merge.result import merged_snapshot
from telemetry.testing.builders import WALL_NS
from telemetry.wire.snapshot import (
    Accounting,
    CounterStat,
    Extent,
    FoldedProducers,
    GaugeStat,
    MarkStat,
    MetricsSnapshot,
    NodeStat,
    Pending,
    ProducerStat,
    Progress,
    SelfCost,
    SeriesStat,
)


def result(inputs: list[Input], *series: SeriesStat) -> MetricsSnapshot:
    return merged_snapshot(inputs, series, run_id="m", name="all", directory="/d", warnings=["first of all"])


@pytest.fixture
def two(make_run: MakeRun) -> Any:
    """`two({fields of one result}, {fields of the other}, align_starts=False)`: the second began 10 s later."""

    def make(one: dict[str, Any], other: dict[str, Any], **options: bool) -> MetricsSnapshot:
        runs = [make_run("a", {0: [1.0] * 4}, **one), make_run("b", {0: [1.0] * 2}, start_s=10.0, **other)]
        return result(gather(runs, **options))

    return make


def test_a_merged_run_lasts_from_the_first_start_to_the_last_end(two: Any) -> None:
    """A merged run lasts from the first start to the last end.

    With aligned starts it lasts as long as the longest run.
    """
    apart, together = two({}, {"name": "c"}), two({"name": "d"}, {"name": "e"}, align_starts=True)
    assert (apart.started_ns, apart.elapsed_s, apart.time_ns) == (WALL_NS, 12.0, WALL_NS + 12 * SECOND)
    assert (together.started_ns, together.elapsed_s, together.time_ns) == (WALL_NS, 4.0, WALL_NS + 4 * SECOND)
    assert (apart.run_id, apart.name, apart.directory, apart.command) == ("m", "all", "/d", None)
    assert apart.reason == "merged from 2 runs"


@pytest.mark.parametrize(
    ("one", "other", "worst"),
    [
        ("complete", "complete", "complete"),
        ("complete", "lossy", "lossy"),
        ("incomplete", "lossy", "incomplete"),
        ("interrupted", "incomplete", "interrupted"),
    ],
)
def test_a_merged_run_is_as_complete_as_the_worst(two: Any, one: str, other: str, worst: str) -> None:
    """One that lost something is not made whole by others."""
    assert two({"completeness": one}, {"completeness": other}).completeness == worst


def test_what_was_interrupted_is_said(two: Any) -> None:
    """The state is that of all, the reason whose it was; warnings keep their run's label."""
    found = two({"state": "INTERRUPTED", "reason": "SIGTERM", "warnings": []}, {"warnings": ["careful"]})
    assert found.state == "INTERRUPTED"
    assert found.warnings == ["first of all", "a: interrupted: SIGTERM", "b: careful"]
    assert two({"name": "c"}, {"name": "d"}).state == "COMPLETE"


def test_accounts_and_costs_are_added(two: Any) -> None:
    """Accounts and costs are added, also by reason. The longest tick of all runs is kept."""
    found = two(
        {
            "accounting": Accounting(emitted=5, applied=3, dropped={"x": 2}),
            "cost": SelfCost(cpu_s=0.5, tick_ms_max=7.0),
        },
        {
            "accounting": Accounting(emitted=4, applied=3, dropped={"x": 1}, bad_frames={"y": 1}),
            "cost": SelfCost(cpu_s=0.25, tick_ms_max=3.0, frames=2),
        },
    )
    assert found.accounting == Accounting(emitted=9, applied=6, dropped={"x": 3}, bad_frames={"y": 1})
    assert (found.cost.cpu_s, found.cost.tick_ms_max, found.cost.frames) == (0.75, 7.0, 2)


def test_counters_are_added(two: Any) -> None:
    """Integers stay integers; the rate is that of the whole time."""
    labelled = CounterStat(name="n", labels={"x": "1"}, value=1, events=1)
    found = two(
        {"counters": [CounterStat(name="n", value=2**60, events=3), labelled]},
        {"counters": [CounterStat(name="n", value=20, events=2), CounterStat(name="f", value=0.5, events=1)]},
    )
    assert [(stat.name, stat.value, stat.events) for stat in found.counters] == [
        ("n", 2**60 + 20, 5),
        ("n", 1, 1),
        ("f", 0.5, 1),
    ]
    assert found.counters[1].rate == pytest.approx(1 / 12)
    assert isinstance(found.counters[0].value, int)


def test_what_was_rounded_stays_so(two: Any) -> None:
    """The numbers of rounded values of counters and gauges are added."""
    found = two(
        {"counters": [CounterStat(name="n", imprecise=1)], "gauges": [GaugeStat(name="g", value=1, imprecise=2)]},
        {"counters": [CounterStat(name="n", imprecise=3)], "gauges": [GaugeStat(name="g", value=2, imprecise=1)]},
    )
    assert (found.counters[0].imprecise, found.gauges[0].imprecise) == (4, 3)


def test_a_total_too_large_for_the_wire_is_said_to_be_rounded(two: Any) -> None:
    """A merge rounds a total of whole counters that does not fit in an integer, and says so."""
    large = {"exact": True, "counters": [CounterStat(name="n", value=2**62 + 1)]}
    found = two(large, large)
    assert (found.counters[0].value, found.counters[0].imprecise, found.exact) == (2.0**63, 1, False)
    assert found.exact_reason == "the sum of some counters does not fit in an integer"


def test_gauges_have_the_last_value(two: Any) -> None:
    """A gauge has the value that is last in time, which alignment changes. The extremes are those of all runs."""
    early = GaugeStat(name="g", value=5, min=1, max=9, events=3, time_ns=WALL_NS + 3 * SECOND)
    late = GaugeStat(name="g", value=7, min=6, max=8, events=2, time_ns=WALL_NS + 11 * SECOND)
    (found,) = two({"gauges": [late]}, {"gauges": [early]}).gauges
    assert (found.value, found.min, found.max, found.events) == (7, 1, 9, 5)
    (moved,) = two({"gauges": [early], "name": "c"}, {"gauges": [late], "name": "d"}, align_starts=True).gauges
    assert (moved.value, moved.time_ns) == (5, WALL_NS + 3 * SECOND)
    unset = GaugeStat(name="g", time_ns=WALL_NS + 20 * SECOND)
    (known,) = two({"gauges": [early], "name": "e"}, {"gauges": [unset], "name": "f"}).gauges
    assert (known.value, known.min) == (5, 1)


def test_marks_come_in_order_of_time(two: Any) -> None:
    """Marks of all runs come in order of time."""
    marks = [
        MarkStat(text=text, time_ns=WALL_NS + at * SECOND) for text, at in (("1", 1), ("3", 3), ("2", 2), ("4", 4))
    ]
    found = two({"marks": marks[:2]}, {"marks": marks[2:]})
    assert [mark.text for mark in found.marks] == ["1", "2", "3", "4"]


def test_params_that_differ_are_listed_by_run(two: Any) -> None:
    """A parameter with one value in all runs is listed once, and others are listed by run. True is not 1."""
    found = two({"params": {"size": 1, "seed": 1, "own": "x"}}, {"params": {"seed": True, "size": 1}})
    assert found.params == {"size": 1, "seed (a)": 1, "seed (b)": True, "own (a)": "x"}


def test_limits_of_requests_that_only_some_runs_have_are_kept(two: Any) -> None:
    """Runs without such requests don't contradict; runs with other limits do. The same for the chosen headline."""
    one = {"slo.chat": "ttft:1s", "slo.llm": "ttft:1s", "telemetry.headline": "loss"}
    found = two({"params": one}, {"params": {"slo.llm": "ttft:2s"}})
    assert found.params == {
        "slo.chat": "ttft:1s",
        "slo.llm (a)": "ttft:1s",
        "slo.llm (b)": "ttft:2s",
        "telemetry.headline": "loss",
    }


def test_producers_of_one_id_stay_two(two: Any) -> None:
    """A producer id that two runs share stays two producers.

    The later one gets the label of its run, also in marks.
    """
    fields = {
        "producers": [ProducerStat(producer="p", applied=1)],
        "marks": [MarkStat(text="m", time_ns=1, producer="p")],
        "pending": Pending(producers=["p", "q"], events=2),
    }
    found = two(fields, fields)
    assert [stat.producer for stat in found.producers] == ["p", "p (b)"]
    assert [mark.producer for mark in found.marks] == ["p", "p (b)"]
    assert found.pending == Pending(producers=["p", "q", "p (b)", "q"], events=4)


def test_progress_and_overflow_are_added(two: Any) -> None:
    """Progress is added by name and overflow by kind."""
    found = two(
        {"progress": [Progress(name="x", done=1.0, total=2.0)], "overflow": {"series": 3}},
        {"progress": [Progress(name="x", done=2.0, total=2.0)], "overflow": {"series": 1, "gauge": 1}},
    )
    assert found.progress == [Progress(name="x", done=3.0, total=4.0)]
    assert found.overflow == {"series": 4, "gauge": 1}


def test_exact_says_why_not(make_run: MakeRun) -> None:
    """Exact only if all are, and nothing had to be added up."""
    exact, added = SeriesStat(name="s", count=1, exact=True), SeriesStat(name="s", count=2)
    whole = gather([make_run("a", {}, exact=True), make_run("b", {}, exact=True)])
    assert (result(whole, exact).exact, result(whole, exact).exact_reason) == (True, "")
    assert (result(whole, added).exact, "histograms" in result(whole, added).exact_reason) == (False, True)
    some = gather([make_run("c", {}, exact=True), make_run("d", {}, exact_reason="the journal is off")])
    assert (result(some, exact).exact, result(some, exact).exact_reason) == (False, "the journal is off")


def test_extents_of_counters_join_in_the_clock_of_the_merged_run(two: Any) -> None:
    """The merged extent of a counter goes from the first beginning to the last end.

    It is unknown if one run lacks it.
    """
    known = Extent(
        first_ns=WALL_NS + 1, last_ns=WALL_NS + 5, last_done_ns=WALL_NS + 6, end_ns=WALL_NS + 7, inside=3
    )
    counter = CounterStat(name="done", value=4, events=4, extent=known)
    later = replace(
        counter,
        extent=Extent(
            first_ns=WALL_NS + 3, last_ns=WALL_NS + 9, last_done_ns=WALL_NS + 12, end_ns=WALL_NS + 20, inside=1
        ),
    )
    merged = two({"counters": [counter]}, {"counters": [later]})
    assert merged.counters[0].extent == Extent(first_ns=WALL_NS + 1, last_done_ns=WALL_NS + 12, end_ns=WALL_NS + 20)
    without = {"counters": [replace(counter, extent=None)], "name": "d"}
    assert two({"counters": [counter], "name": "c"}, without).counters[0].extent is None
    aligned = two({"counters": [counter], "name": "e"}, {"counters": [later], "name": "f"}, align_starts=True)
    assert aligned.counters[0].extent == Extent(
        first_ns=WALL_NS + 3 - 10 * SECOND, last_done_ns=WALL_NS + 6, end_ns=WALL_NS + 7
    )


def test_nodes_of_one_name_stay_two(two: Any) -> None:
    """The later one gets the label of its run, and its times move with the run."""
    node = NodeStat(node="n1", leaf="l1", producers=8, interval_ns=WALL_NS, last_seen_ns=WALL_NS)
    found = two(
        {"nodes": [node]},
        {"nodes": [replace(node, leaf="l2", interval_ns=0)], "missing_nodes": 1},
        align_starts=True,
    )
    assert [(stat.node, stat.leaf) for stat in found.nodes] == [("n1", "l1"), ("n1 (b)", "l2")]
    assert [(stat.interval_ns, stat.last_seen_ns) for stat in found.nodes] == [
        (WALL_NS, WALL_NS),
        (0, WALL_NS - 10 * SECOND),
    ]
    assert (found.node_count, found.producer_count) == (3, 18)


def test_producers_without_a_row_are_added(two: Any) -> None:
    """Producers without a row are added. Otherwise the totals would not be the sum of their parts."""
    folded = FoldedProducers(producers=3, events=40, repaired=1)
    found = two({"folded": folded}, {"folded": FoldedProducers(producers=1, events=2, duplicates=5)})
    assert found.folded == FoldedProducers(producers=4, events=42, repaired=1, duplicates=5)
