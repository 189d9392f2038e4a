"""The text form: what comes first, what is left out, and what it does to a terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest

from telemetry.report.text import render_text
from telemetry.wire.report import Report
from telemetry.wire.snapshot import (
    Accounting,
    CommandFacts,
    GaugeStat,
    MarkStat,
    MetricsSnapshot,
    Pending,
    ProducerStat,
    SeriesStat,
)


def report(**fields: object) -> Report:
    snapshot = MetricsSnapshot(**{"run_id": "r1", "name": "job", "state": "COMPLETE", **fields})  # type: ignore[arg-type]
    return Report(snapshot=snapshot, source="pubsub")


def series(name: str, **fields: object) -> SeriesStat:
    return SeriesStat(
        name=name,
        unit="ms",
        **{"count": 3, "percentiles": {"50": 1.5}, "min": 1.0, "max": 2.0, **fields},  # type: ignore[arg-type]
    )


def test_the_first_line_is_the_headline() -> None:
    """The first line of the text is the report's one-line verdict."""
    wanted = report(completeness="complete", accounting=Accounting(emitted=1, applied=1))
    assert render_text(wanted).splitlines()[0] == wanted.headline()


def test_an_empty_run_is_short() -> None:
    """A run in which nothing happened says so first, and has no empty sections."""
    assert render_text(report()).splitlines() == [
        "nothing was recorded: does the program call telemetry.start()?",
        "incomplete: job, 0 of 0 events applied, 0 lost",
        "took 0 s · run r1",
    ]


def test_colour_only_when_asked() -> None:
    """Escape sequences appear with `color` and never without, and the words are the same."""
    plain, painted = render_text(report()), render_text(report(), color=True)
    assert "\x1b" not in plain
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_text_from_outside_cannot_steer_the_terminal() -> None:
    """Escape sequences, newlines and direction marks in names, marks, params and warnings become visible text."""
    evil = "\x1b[2Jx\ny\u202e"
    said = render_text(
        report(
            name=evil,
            reason=evil,
            directory=evil,
            warnings=[evil],
            params={evil: evil},
            marks=[MarkStat(text=evil, time_ns=1, labels={evil: evil})],
            series=[series(evil, labels={evil: evil})],
            producers=[ProducerStat(producer=evil, name=evil)],
            command=CommandFacts(argv=[evil]),
            accounting=Accounting(dropped={evil: 1}),
        )
    )
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "\\x1b[2Jx\\ny\\u202e" in said


def test_all_well_is_one_line() -> None:
    """Producers without trouble are counted, not listed."""
    stats = [ProducerStat(producer=f"p{n}", completeness="complete", emitted=5) for n in range(3)]
    said = render_text(report(producers=stats))
    assert "  3, all complete\n" in said
    assert "Producers" not in render_text(report(producers=stats[:1]))
    assert "Losses" not in said


def test_trouble_is_named() -> None:
    """A producer that lost something is named with reasons and ranges."""
    stats = [
        ProducerStat(producer="p0", completeness="complete"),
        ProducerStat(
            producer="p1",
            name="client",
            rank=7,
            completeness="lossy",
            dropped_by_producer={"buffer_full": 12},
            missing=3,
            missing_batches=[(2, 2), (5, 9)],
        ),
    ]
    account = Accounting(dropped_by_producer={"buffer_full": 12}, missing=3, bad_frames={"wrong_topic": 1})
    said = render_text(report(producers=stats, accounting=account), width=80)
    assert "client rank 7: buffer_full 12 · missing batches 2, 5–9" in said
    assert re.search(r"buffer_full +12 events +the producer's buffer was full", said)
    assert re.search(r"missing +3 events +sent, but never arrived", said)
    assert re.search(r"wrong_topic +1 frame +", said)


END_NS = 1_772_366_525_000_000_000


def test_who_never_ended_is_named_with_its_last_event() -> None:
    """A producer is named by name, rank, host and pid, or by its id if nothing else is known.

    The line says how long before the end it fell silent, what may be missing and what is lost for good.
    """
    stats = [
        ProducerStat(
            producer="p-7",
            name="trainer",
            host="node",
            pid=42,
            rank=3,
            status="lost",
            missing=5,
            missing_batches=[(4, 4)],
            unrepairable_batches=[(5, 9), (12, 12)],
            unrepairable=6,
            repaired=2,
            last_event_ns=END_NS - 3_250_000_000,
        ),
        ProducerStat(producer="p-8"),
        ProducerStat(producer="p-9", completeness="complete", repaired=1),
    ]
    ended = report(producers=stats, pending=Pending(producers=["p-7", "p-8", "p-0"]), time_ns=END_NS)
    said = render_text(ended, width=400)
    assert "\nnever ended: trainer rank 3 (node:42), p-8, p-0\n" in said
    assert (
        "  trainer rank 3 (node:42): never ended, its last event was 3.25 s before the end · "
        "missing batches 4 · 6 batches permanently lost (5–9, 12) · 2 batches repaired\n"
    ) in said
    assert "  p-8: never ended, no events arrived\n" in said
    assert re.search(r"trainer rank 3 \(node:42\) +lost +incomplete", said)


def test_a_silent_producer_of_a_live_run_may_return() -> None:
    """Late or lost, and since when; one that is well is not talked about, and what is missing may come."""
    stats = [
        ProducerStat(producer="p-1", status="late", last_event_ns=END_NS - 4_000_000_000, missing_batches=[(1, 2)]),
        ProducerStat(producer="p-2", last_event_ns=END_NS - 4_000_000_000),
    ]
    live = MetricsSnapshot(run_id="r", name="job", state="LIVE", producers=stats, time_ns=END_NS)
    said = render_text(Report(snapshot=live, source="status"), width=200)
    assert "  p-1: its last event was 4.00 s ago · missing batches 1–2, which may still arrive\n" in said
    assert "p-2:" not in said
    cut_off = render_text(Report(snapshot=live, source="last_live"), width=200)
    assert "  p-2: never ended, its last event was 4.00 s before the end\n" in cut_off


def test_repaired_batches_of_a_complete_run_are_one_word() -> None:
    """All is there, and it was not for nothing."""
    stats = [ProducerStat(producer="p", completeness="complete", repaired=1)]
    said = render_text(report(producers=stats, accounting=Accounting(repaired=1)), full=True)
    assert "  1, all complete, 1 batch repaired\n" in said


def test_killed_producers_are_listed_although_nothing_is_missing() -> None:
    """The headline has the sum. In a table of others, they stand below it."""
    killed = ProducerStat(producer="p-1", name="worker", completeness="complete", status="ended", salvaged=1_234)
    account = Accounting(emitted=2_000, applied=2_000, salvaged=1_234)
    facts = {"accounting": account, "completeness": "complete"}
    said = render_text(report(producers=[killed], **facts), full=True)
    assert said.startswith("complete (1,234 events salvaged): job, 2,000 of 2,000 events applied, 0 lost\n")
    assert "  1, all complete\n  worker: killed (1,234 events salvaged)\n" in said
    other = ProducerStat(producer="p-2", completeness="incomplete", salvaged=5)
    said = render_text(report(producers=[killed, other], **facts), width=200, full=True)
    assert "  worker: killed (1,234 events salvaged)\n" in said
    assert "killed (5 events salvaged)\n" in said


def test_gauges_are_sorted_by_name() -> None:
    """Gauges are sorted by name and labels, so that each is easy to find.

    Their order in the snapshot has no effect.
    """
    gauges = [GaugeStat(name="b"), GaugeStat(name="a", labels={"x": "2"}), GaugeStat(name="a", labels={"x": "1"})]
    said = render_text(report(gauges=gauges))
    assert re.search(r"a\{x=1\}.*\n.*a\{x=2\}.*\n +b ", said)


def test_long_parameters_are_cut() -> None:
    """A prompt of many lines does not bury the report; the JSON form has it whole, and that is said."""
    said = render_text(report(params={"prompt": "x" * 2_000, "fits": "y" * 56}), width=80, full=True)
    assert f"  prompt  {'x' * 55}…\n" in said
    assert f"  fits    {'y' * 56}\n" in said
    assert "  values that end with … are complete in the JSON form\n" in said
    assert "JSON" not in render_text(report(params={"fits": "y" * 56}), full=True)


def test_exactness_is_said_once_if_it_is_the_same_everywhere() -> None:
    """One bound for all series stands in the title; different ones stand beside each series."""
    same = render_text(report(series=[series("a", exact=True), series("b", exact=True)]))
    assert "Series, percentiles exact\n" in same
    mixed = render_text(report(series=[series("a", exact=True), series("b"), series("c", error_bound=None)]))
    for name, bound in (("a", "exact"), ("b", "±0.1 %"), ("c", "unbounded")):
        assert re.search(rf"^  {name} .* {bound}$", mixed, re.MULTILINE)


def test_resolution_is_named_where_it_matters() -> None:
    """Values so small that a tick is more than the relative bound say so."""
    assert "±0.1 % or ±1.00 ns" in render_text(report(series=[series("a", min=1e-6, resolution=1e-6)]))
    assert "±0.1 %\n" in render_text(report(series=[series("a", min=1.0, resolution=1e-6)]))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_lines_fit_the_width(width: int) -> None:
    """A table is no wider than the terminal as long as names and two columns of numbers fit."""
    keys = dict.fromkeys(("50", "75", "90", "95", "99", "99.9", "99.99"), 1.5)
    said = render_text(report(series=[series("latency", percentiles=keys), series("x" * 24)]), width=width)
    assert max(len(line) for line in said.splitlines()[1:]) <= width


def test_wide_shows_every_column() -> None:
    """A table with enough room shows every column, with the percentiles in order."""
    keys = dict.fromkeys(("99.99", "50", "9", "100"), 1.5)
    said = render_text(report(series=[series("latency", percentiles=keys)]), width=200, full=True)
    assert re.search(r"name +count +mean +min +p9 +p50 +p99\.99 +p100 +max +stddev\n", said)


def test_long_tables_end_with_what_is_hidden() -> None:
    """Two thousand series don't flood a terminal; the text says how many are not shown."""
    many = report(series=[series(f"s{n}") for n in range(2_000)])
    assert "… and 1,800 more in the JSON form" in render_text(many, full=True)
    assert "  1,988 more in the full report\n" in render_text(many)


def test_a_live_run_says_so() -> None:
    """A result along the way names its source and what it waits for."""
    snapshot = MetricsSnapshot(
        run_id="r1",
        name="job",
        state="DRAINING",
        elapsed_s=3.0,
        pending=Pending(producers=["p1"], events=4, deferred=2),
    )
    said = render_text(Report(snapshot=snapshot, source="status"))
    assert "running for 3.00 s" in said
    assert "from the aggregator of the live run" in said
    assert "waiting for p1, 4 events without a definition, 2 texts not counted yet" in said


@pytest.mark.parametrize(
    ("state", "line"), [("LIVE", "1 text not counted yet"), ("COMPLETE", "1 text not counted")]
)
def test_only_a_run_that_drains_waits(state: Any, line: str) -> None:
    """A run waits for texts only while it drains.

    A live run counts them as they come, and an ended run leaves the rest.
    """
    snapshot = MetricsSnapshot(run_id="r1", name="job", state=state, pending=Pending(deferred=1))
    said = render_text(Report(snapshot=snapshot, source="status")).splitlines()
    assert line in said
    assert not any("waiting for" in one for one in said)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"exit_code": 3}, "exit code 3"),
        ({"signal": "SIGKILL"}, "ended by SIGKILL"),
        ({}, "still running"),
    ],
)
def test_how_the_command_ended(facts: dict[str, object], says: str) -> None:
    """The command's end is its code, its signal, or that it goes on."""
    said = render_text(report(command=CommandFacts(argv=["a", "b c"], **facts)), full=True)  # type: ignore[arg-type]
    assert "  a 'b c'\n" in said
    assert says in said
