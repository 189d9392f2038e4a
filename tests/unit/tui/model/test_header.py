"""The header says what run this is and whether its numbers can be trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct
from tests.unit.tui.model.scenes import NOON, SECOND, producer, scene, snapshot, texts

from telemetry.tui.model.grid import width_of
from telemetry.tui.model.header import badge, header, reporting, verdict
from telemetry.tui.model.scene import RangeFigures, Scene, View
from telemetry.wire.gates import GateResult
from telemetry.wire.snapshot import Accounting, AxisStat, CommandFacts, MarkStat, Pending, SelfCost


def said(shown: Scene, width: int = 80, view: View | None = None) -> list[str]:
    return texts(header(shown, view or View(), width))


def test_a_live_run_at_80_columns() -> None:
    """State, time, rate; progress with what is left of it; completeness, producers and what all this costs."""
    assert said(scene()) == [
        " LIVE  bench · 40 s                                    18.4 k/s · 225,123 events",
        "requests ━━━━━━━━━━━━━━───────────────────── 40 % · 20,000 of 50,000 · 60 s left",
        "complete so far · 0 lost · 1/1 producer reporting · aggregator 9 %, 47.0 MiB",
    ]


def test_a_live_run_at_160_columns() -> None:
    """There is room for what a tick takes and what the journal has grown to."""
    lines = said(scene(), 160)
    cost = "aggregator 9 %, 47.0 MiB · tick 2.10 ms · journal 12.0 MiB"
    assert lines[2] == f"complete so far · 0 lost · 1/1 producer reporting · {cost}"
    assert lines[0].endswith("225,123 events")
    assert len(lines[0]) == 160


def test_a_value_that_is_not_finite_comes_first_and_in_amber() -> None:
    """Live, and after a run whose data are complete: its badge is amber then, too."""
    nan = [AxisStat(name="step", closed=40, values={"loss": None}, not_finite={"loss": 37})]
    lines = said(scene(axes=nan))
    assert lines[-1].startswith("loss NaN or infinite at step 37 · complete so far · 0 lost")
    assert header(scene(axes=nan), View(), 80)[-1][0].tone == "warn"
    ended = snapshot(state="COMPLETE", completeness="complete")
    assert (badge(ended).tone, badge(replace_struct(ended, axes=nan)).tone) == ("good", "warn")


def test_two_lines_where_nothing_is_expected() -> None:
    """The header has two lines where progress cannot be known, so that this takes no room."""
    assert len(said(scene(progress=[]))) == 2


def test_before_the_first_snapshot() -> None:
    """There is no run yet, but why there is none may be known."""
    assert said(Scene()) == [" CONNECTING", "waiting for the first snapshot"]
    assert said(Scene(trouble="no aggregator listens at ipc:///x")) == [
        " CONNECTING",
        "no aggregator listens at ipc:///x",
    ]


def test_silence_and_trouble_take_the_last_line() -> None:
    """Silence and trouble take the last line: the figures are old then, and nothing matters more."""
    assert said(replace(scene(), silence_s=3.24))[-1] == "last snapshot 3.2 s ago"
    lines = said(replace(scene(), silence_s=300.0, trouble="the aggregator does not answer"))
    assert lines[-1] == "last snapshot 5 min 0 s ago · the aggregator does not answer"
    assert len(lines) == 3


def test_what_is_silent_is_not_called_live() -> None:
    """A silent run shows no state, rate or time left, as none is known. The remedy is never cut."""
    remedy = "the aggregator is gone; `telemetry recover /tmp/runs/bench` makes a result of what it left"
    lines = said(replace(scene(), silence_s=48.8, trouble=remedy))
    assert lines[0].startswith(" SILENT  bench")
    assert "/s" not in lines[0]
    assert "left" not in lines[1]
    assert lines[2] == "last snapshot 48.8 s ago"
    assert " ".join(line.strip() for line in lines[3:]) == remedy


def test_progress_is_not_that_of_the_past() -> None:
    """Figures of the past have no progress bar of now beside them."""
    moment = RangeFigures(start_ns=NOON + 10 * SECOND, end_ns=NOON + 20 * SECOND)
    assert said(replace(scene(), moment=moment))[1] == "requests 40 % by now · 20,000 of 50,000"


def test_draining_says_what_is_pending_and_for_how_long() -> None:
    """A draining run names the producers that are waited for, and says for how long at most.

    Events and texts have their numbers.
    """
    pending = Pending(producers=["a", "x\n"], events=1_200, deferred=2, deadline_s=7.2)
    shown = scene(state="DRAINING", pending=pending, producers=[producer("a", rank=3)])
    assert said(shown, 160)[0].startswith(" DRAINING  bench")
    assert said(shown, 160)[-1] == (
        r"waiting for http rank 3 (node1:4711), x\n, 1,200 events without a definition, 2 texts not counted yet"
        " · at most 7 s left · complete so far · 0 lost"
    )
    many = Pending(producers=[str(number) for number in range(9)])
    assert said(scene(state="DRAINING", pending=many))[-1] == (
        "waiting for 0, 1, 2, 3, 5 more · complete so far · 0 lost"
    )
    assert said(scene(state="DRAINING"))[-1].startswith("all events received, finishing")


def test_a_complete_run() -> None:
    """The whole time, the average rate, whether percentiles are exact, and how it ended."""
    shown = scene(state="COMPLETE", completeness="complete", exact=True, reason="the command exited with code 0")
    assert said(shown)[0] == " COMPLETE  bench · 40.0 s                   225,123 events · 5.63 k/s on average"
    assert said(shown)[-1] == "complete · 0 lost · the command exited with code 0 · percentiles exact"


def test_an_interrupted_run_says_why() -> None:
    """An interrupted run says why, in the colour of a failure."""
    shown = snapshot(state="INTERRUPTED", completeness="interrupted", reason="SIGTERM")
    assert said(Scene(snapshot=shown))[-1].startswith("interrupted · 0 lost · SIGTERM")
    assert badge(shown).tone == "bad"


def test_a_failed_command_is_told_from_a_good_one() -> None:
    """The numbers may be whole and the run a failure."""
    command = CommandFacts(argv=["false"], exit_code=1)
    shown = scene(
        state="COMPLETE", completeness="complete", reason="the command exited with code 1", command=command
    )
    first, *_, last = header(shown, View(), 120)
    assert (first[0].text, first[0].tone) == (" FAILED ", "bad")
    cells = {cell.text: cell.tone for cell in last}
    assert cells["exit code 1"] == "bad"
    assert cells["complete · 0 lost"] == "good"
    killed = scene(state="COMPLETE", completeness="complete", command=CommandFacts(argv=["x"], signal="SIGSEGV"))
    assert said(killed)[-1].startswith("SIGSEGV (segmentation fault) · complete · 0 lost")


def test_a_failed_command_comes_with_its_exception() -> None:
    """The newest exception that the program recorded, cut to the line; other marks are no reason."""
    marks = [
        MarkStat(text="ValueError: an older one", time_ns=1),
        MarkStat(text=f"RuntimeError: shard 7 is corrupt {'x' * 90}", time_ns=2),
        MarkStat(text="an error was seen", time_ns=3),
    ]
    shown = scene(
        state="COMPLETE", completeness="complete", marks=marks, command=CommandFacts(argv=["x"], exit_code=1)
    )
    last = said(shown)[-1]
    assert last.startswith("exit code 1 · RuntimeError: shard 7 is corrupt xx")
    assert last.endswith("x… · complete · 0 lost")


def test_a_failed_program_is_told_like_a_failed_command() -> None:
    """A program that starts its own run has no command."""
    marks = [MarkStat(text="ValueError: boom", time_ns=9)]
    shown = scene(state="COMPLETE", completeness="complete", marks=marks, reason="the program failed")
    assert said(shown)[0].startswith(" FAILED ")
    assert said(shown)[-1].startswith("the program failed · ValueError: boom · complete · 0 lost")


def test_a_failed_gate_is_the_state_of_a_complete_run() -> None:
    """The command ended well, and `telemetry run` did not; gates so far decide nothing."""
    gates = (GateResult(expression="e", outcome="fail", reason="r"),)
    command = CommandFacts(argv=["x"], exit_code=0)
    shown = replace(scene(state="COMPLETE", completeness="complete", command=command), gates=gates)
    assert said(shown)[0].startswith(" GATE FAILED  bench")
    assert said(shown)[-1].startswith("complete · 0 lost · 1 gate failed · exit code: command 0, run 99")
    assert said(replace(shown, gates_final=False))[0].startswith(" COMPLETE  bench")


@pytest.mark.parametrize(
    ("account", "words", "tone"),
    [
        (Accounting(), "complete so far · 0 lost", "good"),
        (Accounting(salvaged=1_234), "complete so far (1,234 events salvaged) · 0 lost", "good"),
        (Accounting(missing=40), "40 missing, requested again", "warn"),
        (Accounting(dropped={"negative": 7}, dropped_by_producer={"buffer_full": 5}), "lossy: 12 lost", "bad"),
        (Accounting(dropped={"negative": 7}, missing=40), "lossy: 7 lost, 40 missing", "bad"),
    ],
)
def test_the_verdict_so_far(account: Accounting, words: str, tone: str) -> None:
    """The verdict so far tells missing events, which may still come, from dropped ones."""
    piece = verdict(snapshot(accounting=account))
    assert (piece.text, piece.tone) == (words, tone)


def test_the_final_verdict_is_that_of_the_run() -> None:
    """The final verdict counts events as lost if their definition did not come.

    A producer that never ended is named.
    """
    lossy = snapshot(state="COMPLETE", completeness="lossy", accounting=Accounting(missing=5, waiting=7))
    assert verdict(lossy).text == "lossy: 12 lost"
    assert badge(lossy).tone == "bad"
    salvaged = snapshot(state="COMPLETE", completeness="complete", accounting=Accounting(salvaged=1))
    assert verdict(salvaged).text == "complete (1 event salvaged) · 0 lost"
    open_end = scene(state="COMPLETE", completeness="incomplete", pending=Pending(producers=["a"]))
    assert said(open_end)[-1].startswith("incomplete · 0 lost · never ended: http (node1:4711)")


def test_producers_are_counted_by_what_they_do() -> None:
    """Late and lost ones stand out, ended ones are no trouble."""
    stats = [
        producer("a"),
        producer("b", status="late"),
        producer("c", status="lost"),
        producer("d", status="ended"),
    ]
    assert reporting(snapshot(producers=stats)) == ("1/4 producers reporting, 1 ended, 1 late, 1 lost", "bad")
    assert reporting(snapshot(producers=stats[:2])) == ("1/2 producers reporting, 1 late", "warn")
    assert reporting(snapshot(producers=stats[3:])) == ("1 producer, ended", "plain")
    assert reporting(snapshot(producers=[])) == ("no producers yet", "dim")
    assert reporting(snapshot(producers=[], state="COMPLETE")) == ("no producers", "dim")


def test_warnings_and_a_late_aggregator_are_pointed_out() -> None:
    """Warnings and late ticks come before the cost, as the figures may not be what they seem."""
    shown = scene(warnings=["a", "b"], cost=SelfCost(ticks=100, ticks_late=12, cpu_percent=98.0, rss_bytes=1 << 20))
    known = "complete so far · 0 lost · 1/1 producer reporting · 2 warnings"
    assert said(shown, 120)[-1] == f"{known} · 12 % of ticks late · aggregator 98 %, 1.00 MiB"
    assert said(shown, 90)[-1] == f"{known} · 12 % of ticks late"


def test_a_moment_in_the_past_says_which() -> None:
    """A moment in the past has its times in place of the rate, which is of now. Trouble has a line of its own."""
    moment = RangeFigures(start_ns=NOON + 10 * SECOND, end_ns=NOON + 20 * SECOND)
    shown = replace(scene(), moment=moment, trouble="gone")
    lines = said(shown)
    assert lines[0] == " LIVE  bench · 40 s                     showing 12:00:10–12:00:20 UTC · 20 s ago"
    assert lines[-1] == "gone"
    over = replace(scene(state="COMPLETE", completeness="complete"), moment=moment)
    assert said(over)[0].endswith("20 s before the end")


@pytest.mark.parametrize("width", [20, 40, 80, 160, 400])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    """Names come from outside and may be anything."""
    shown = scene(name="a very long name of a run [bold]\x1b" * 5, warnings=["w"])
    lines = header(shown, View(), width)
    assert all(width_of(line) <= width for line in lines)
    assert "\x1b" not in "".join(texts(lines))
    assert " LIVE  a v" in texts(lines)[0]


@pytest.mark.parametrize(
    ("outcomes", "words", "tone"),
    [
        (["pass", "fail"], "1 gate failed", "bad"),
        (["fail", "inconclusive", "fail"], "2 gates failed", "bad"),
        (["inconclusive"], "1 gate inconclusive", "warn"),
        (["pass", "pass"], "2 gates passed", "good"),
    ],
)
def test_gates_stand_beside_the_verdict(outcomes: list[Any], words: str, tone: str) -> None:
    """A complete result may have failed a gate."""
    gates = tuple(GateResult(expression="e", outcome=outcome, reason="r") for outcome in outcomes)
    shown = replace(scene(state="COMPLETE", completeness="complete", reason="r" * 90), gates=gates)
    cells = {cell.text: cell.tone for cell in header(shown, View(), 200)[-1]}
    assert cells[words] == tone
    assert tone == "good" or said(shown, 80)[-1].startswith(f"complete · 0 lost · {words}")


@pytest.mark.parametrize(
    ("outcomes", "words", "tone"),
    [
        (["pass", "fail", "inconclusive"], "1 gate failing", "bad"),
        (["pass", "inconclusive"], "1 gate undecided", "dim"),
        (["pass", "pass"], "2 gates passing", "good"),
    ],
)
def test_gates_of_a_live_run_have_not_ended(outcomes: list[Any], words: str, tone: str) -> None:
    """One that fails now may pass at the end."""
    gates = tuple(GateResult(expression="e", outcome=outcome, reason="r") for outcome in outcomes)
    shown = replace(scene(), gates=gates, gates_final=False)
    cells = {cell.text: cell.tone for cell in header(shown, View(), 200)[-1]}
    assert cells[words] == tone
