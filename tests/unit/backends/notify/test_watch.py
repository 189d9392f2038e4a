"""Items of a run become notifications: which, once, and not too many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from telemetry import limits
from telemetry.backends.backend import RunFacts
from telemetry.backends.items import Item, Live, Mark, Step
from telemetry.backends.notify.message import BODY_CHARS, TITLE_CHARS, Message
from telemetry.backends.notify.watch import NotifyWatch, Seen
from telemetry.config.schema import NotifyConfig
from telemetry.wire.gates import GateResult
from telemetry.wire.snapshot import (
    Accounting,
    AxisStat,
    CommandFacts,
    MetricsSnapshot,
    ProducerStat,
    State,
)

RUN = RunFacts("a1b2c3d4", "trainer", 1_000, Path("/r/runs/trainer-x"), "gpu-7", {"lr": 0.1})
S = 1_000_000_000
NUMBERS = count()


def watch(seen: Seen | None = None, **config: Any) -> NotifyWatch:
    return NotifyWatch(RUN, NotifyConfig(**config), seen or Seen(begun=True))


def step(number: int, **values: float) -> Step:
    return Step(key=f"r{number}", time_ns=number * S, axis="step", step=number, values=values)


def mark(text: str, at_s: float = 0.0, **labels: str) -> Mark:
    return Mark(key=f"r{next(NUMBERS)}", time_ns=int(at_s * S), text=text, labels=labels)


def live(
    at_s: float,
    received: int,
    *,
    producers: Sequence[ProducerStat] = (ProducerStat(producer="p", status="live"),),
    state: State = "LIVE",
    **more: Any,
) -> Live:
    snapshot = MetricsSnapshot(
        run_id="a1b2c3d4",
        name="trainer",
        state=state,
        time_ns=int(at_s * S),
        elapsed_s=at_s,
        accounting=Accounting(received=received),
        producers=list(producers),
        **more,
    )
    return Live(key=f"s{at_s}", time_ns=int(at_s * S), snapshot=snapshot)


def told(watch: NotifyWatch, *items: Item) -> list[Message]:
    return [message for item in items for message in watch.take(item)]


def titles(watch: NotifyWatch, *items: Item) -> list[str]:
    return [message.title for message in told(watch, *items)]


# --- values that are not finite --------------------------------------------------------------------


def test_a_name_is_told_once() -> None:
    """A name is told once, at its first step with NaN or infinity. The finite values are the figures."""
    one = watch()
    first, second = told(
        one,
        step(1, loss=0.5),
        step(2, loss=math.nan, lr=0.25),
        step(3, loss=math.inf),
        step(4, loss=math.nan, norm=math.inf),
    )
    assert first.title == "trainer: loss is NaN or infinite at step 2"
    assert first.body == "lr 0.25\nhost gpu-7"
    assert (first.look, first.event) == ("failure", "not_finite")
    assert second.title == "trainer: norm is NaN or infinite at step 4"


def test_many_names_of_a_step_are_one_notification() -> None:
    """A model that breaks has NaN in everything at once."""
    (one,) = told(watch(), step(7, **{f"v{number}": math.nan for number in range(40)}))
    assert one.title == "trainer: 40 values are NaN or infinite at step 7"
    assert one.body.startswith("v0, v1, v2, v3, v4, 35 more")


def test_names_are_bounded() -> None:
    """A program that makes up names fills no memory."""
    one = watch()
    for number in range(3):
        told(one, step(number, **{f"{number}.{name}": math.nan for name in range(limits.NOTIFY_NAMES)}))
    assert len(one.seen.names) == limits.NOTIFY_NAMES


# --- error marks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels", [{"severity": "error"}, {"level": "ERROR"}, {"level": "critical"}, {"severity": "Fatal"}], ids=str
)
def test_marks_that_are_errors(labels: dict[str, str]) -> None:
    """The labels of `mark(severity=…)`, of the gateway's `log_error`, and of captured log messages."""
    (one,) = told(watch(), mark("out of memory", rank="3", **labels))
    assert one.title == "trainer: error: out of memory"
    assert one.body == "rank: 3\nhost gpu-7"


@pytest.mark.parametrize("labels", [{}, {"level": "WARNING"}, {"severity": "info"}], ids=str)
def test_other_marks_are_none(labels: dict[str, str]) -> None:
    """Warnings are in the report."""
    assert told(watch(), mark("deployed", **labels)) == []


def test_a_flood_of_errors_becomes_a_sum() -> None:
    """Five in a minute, then their number with the newest one."""
    one = watch()
    flood = [mark(f"e{number}", number / 100, severity="error") for number in range(100)]
    assert len(told(one, *flood)) == limits.NOTIFY_PER_MINUTE
    assert titles(one, live(59, 1)) == []
    (total,) = told(one, live(61, 1))
    assert total.title == "trainer: 95 more errors within a minute"
    assert total.body.startswith("the newest: error: e99")
    assert titles(one, mark("again", 62, severity="error")) == ["trainer: error: again"]


def test_a_sum_is_told_at_the_end() -> None:
    """A run that ends in an avalanche does not hide it."""
    one = watch()
    told(one, *(mark("x", 0, severity="error") for _ in range(9)), live(3, 1, state="COMPLETE"))
    assert [message.title for message in one.conclude([], 4 * S)] == [
        "trainer: 4 more errors within a minute",
        "trainer ended",
    ]


# --- stalls ----------------------------------------------------------------------------------------


def test_a_stall_is_told_once_and_its_end_too() -> None:
    """Any new event ends it."""
    one = watch(stalled_s=300)
    axis = AxisStat(name="step", closed=42, newest=41, values={"loss": 0.5})
    assert titles(one, live(1, 10), live(2, 20), live(301, 20)) == []
    (stalled,) = told(one, live(302, 20, axes=[axis]))
    assert stalled.title == "trainer stalled: nothing new for 5 min"
    assert "loss 0.5" in stalled.body
    assert titles(one, live(400, 20), live(9_000, 20)) == []
    (goes_on,) = told(one, live(9_002, 21))
    assert goes_on.title == "trainer goes on after 2 h 30 min"
    assert titles(one, live(9_400, 21)) == ["trainer stalled: nothing new for 7 min"]


def test_collectors_do_not_hide_a_stall() -> None:
    """Collectors measure the machine while the job stands still, so their events do not end a stall."""
    one = watch(stalled_s=10)
    job = ProducerStat(producer="p", status="live", received=5)
    found = [
        titles(
            one,
            live(
                at, 5, producers=[job, ProducerStat(producer="telemetry.collectors.1", status="live", received=at)]
            ),
        )
        for at in range(12)
    ]
    assert [title for some in found for title in some] == ["trainer stalled: nothing new for 10 s"]


def test_no_stall_before_the_first_event_and_after_the_last_producer() -> None:
    """A command that loads a model for an hour records nothing yet."""
    one = watch(stalled_s=10)
    assert titles(one, live(1, 0), live(1_000, 0)) == []
    gone = [ProducerStat(producer="p", status="ended")]
    assert titles(one, live(1_001, 5), live(1_002, 5, producers=gone), live(2_000, 5, producers=gone)) == []
    assert titles(one, live(3_000, 5), live(3_011, 5, state="DRAINING")) == []


# --- the end ---------------------------------------------------------------------------------------


def end(*gates: GateResult, state: State = "COMPLETE", ended_by: bool = False, **more: Any) -> Message:
    one = watch()
    if ended_by:
        assert len(list(one.gate_ended(gates[0], 0))) == 1
    completeness = "complete" if state == "COMPLETE" else "interrupted"
    facts = {"completeness": completeness, "directory": "/r/runs/trainer-x", **more}
    told(one, live(100, 5, state=state, producers=[], **facts))
    (message,) = one.conclude(gates, 101 * S)
    return message


def gate(outcome: str, expression: str = "p99(latency) < 5ms") -> GateResult:
    return msgspec.convert(
        {"expression": expression, "outcome": outcome, "reason": "9.1 ms is not < 5 ms"}, GateResult
    )


def command(**facts: Any) -> CommandFacts:
    return CommandFacts(argv=["python", "train.py"], **facts)


def test_a_run_that_ended_well() -> None:
    """Figures in the title, then duration, host and the way to the report."""
    axis = AxisStat(name="step", closed=42, newest=41, values={"loss": 0.5, "acc": 0.75})
    message = end(gate("pass"), axes=[axis], command=command(exit_code=0))
    assert message.title == "trainer ended: step 41, loss 0.5"
    assert message.look == "success"
    assert message.body.splitlines() == [
        "step 41 · loss 0.5 · acc 0.75",
        "1 gate passed",
        "took 100 s · host gpu-7",
        "telemetry report a1b2c3d4",
    ]


@pytest.mark.parametrize(
    ("facts", "title", "event"),
    [
        ({"command": command(exit_code=3)}, "trainer failed: exit code 3", "failed"),
        (
            {"command": command(signal="SIGKILL")},
            "trainer failed: command ended by SIGKILL (perhaps out of memory)",
            "failed",
        ),
        ({"command": command(signal="SIGINT")}, "trainer was interrupted", "interrupted"),
        ({"command": command(exit_code=130)}, "trainer was interrupted", "interrupted"),
        ({"state": "INTERRUPTED", "reason": "told to"}, "trainer was interrupted", "interrupted"),
    ],
    ids=["code", "killed", "ctrl-c", "shell", "run"],
)
def test_other_ends(facts: dict[str, Any], title: str, event: str) -> None:
    """The title says how it ended."""
    message = end(**facts)
    assert (message.title, message.event) == (title, event)


def test_a_failed_gate_is_the_title() -> None:
    """The title of the end is the failed gate, since somebody has to do something about it."""
    message = end(gate("fail"), gate("pass", "x < 1"), command=command(exit_code=0))
    assert message.title == "trainer ended: gate failed: p99(latency) < 5ms"
    assert "gate failed: p99(latency) < 5ms: 9.1 ms is not < 5 ms" in message.body
    assert (message.look, message.event) == ("failure", "gate")
    message = end(gate("fail"), gate("fail", "x < 1"), gate("inconclusive", "y < 1"))
    assert message.title == "trainer ended: 2 of 3 gates failed"
    assert "1 gate is inconclusive" in message.body


def test_a_gate_that_ends_the_command_is_told_at_once_and_in_the_end() -> None:
    """The command may take a while to end."""
    one = watch()
    (first,) = one.gate_ended(gate("fail"), S)
    assert first.title == "trainer: gate failed, the command is stopped"
    assert first.body.startswith("p99(latency) < 5ms\n9.1 ms is not < 5 ms")
    assert list(one.gate_ended(gate("fail"), S)) == []
    message = end(gate("fail"), ended_by=True, command=command(signal="SIGTERM"))
    assert message.title == "trainer was stopped: gate failed: p99(latency) < 5ms"


def test_a_result_with_losses_says_so() -> None:
    """The message of a result with losses names them and is a warning, not a success."""
    message = end(completeness="lossy")
    assert message.look == "warning"
    assert "result: lossy" in message.body


# --- switches, texts, state ------------------------------------------------------------------------


def test_only_wanted_events_are_told() -> None:
    """Each event has its switch."""
    one = watch(events=("failed",), stalled_s=1)
    assert told(one, step(1, a=math.nan), mark("e", severity="error"), live(1, 5), live(9, 5)) == []
    assert list(one.gate_ended(gate("fail"), 0)) == []
    told(one, live(10, 5, state="COMPLETE", command=command(exit_code=0)))
    assert list(one.conclude([gate("fail")], 0)) == []
    told(one, live(10, 5, state="COMPLETE", command=command(signal="SIGTERM")))
    assert list(one.conclude([gate("fail")], 0)) == []  # the gate has stopped it
    one = watch(events=("failed",))
    told(one, live(10, 5, state="COMPLETE", command=command(exit_code=1)))
    assert [message.title for message in one.conclude([], 0)] == ["trainer failed: exit code 1"]


@pytest.mark.parametrize("wanted", ["gate", "ended"])
def test_the_end_is_told_if_any_of_its_events_is_wanted(wanted: str) -> None:
    """A failed gate is one of them."""
    one = NotifyWatch(RUN, msgspec.convert({"events": (wanted,)}, NotifyConfig), Seen(begun=True))
    told(one, live(10, 5, state="COMPLETE"))
    assert len(list(one.conclude([gate("fail")], 0))) == 1


def test_the_start_is_told_on_request_and_once() -> None:
    """The start is told with parameters. Another process of the writer does not repeat it."""
    seen = Seen()
    one = NotifyWatch(RUN, NotifyConfig(events=("start",)), seen)
    (message,) = one.begin()
    assert (message.title, message.body) == ("trainer started", "lr 0.1\nhost gpu-7")
    assert list(NotifyWatch(RUN, NotifyConfig(events=("start",)), seen).begin()) == []
    assert list(NotifyWatch(RUN, NotifyConfig(), Seen()).begin()) == []


def test_texts_are_short_plain_and_call_nobody() -> None:
    """A mark may hold anything: secrets, line ends, control characters, mentions, megabytes."""
    (one,) = told(watch(), mark("@channel \x1b[2J\nPASSWORD=hunter2 " + "x" * 9_000, severity="error"))
    assert len(one.title) <= TITLE_CHARS
    assert len(one.body) <= BODY_CHARS
    assert "hunter2" not in one.title + one.body
    assert "@channel" not in one.title + one.body
    assert one.title.isprintable() or "\u200b" in one.title
    assert "\x1b" not in one.title + one.body


def test_a_late_delivery_says_when_it_was() -> None:
    """A receiver may be down for hours."""
    (one,) = told(watch(), mark("x", severity="error"))
    assert one.body_at(S) == one.body
    assert one.body_at(3_600 * S).endswith("sent late: it happened at 1970-01-01 00:00:00 UTC")


def test_another_process_goes_on() -> None:
    """Another process goes on from what was seen before, which travels as JSON."""
    one = watch(stalled_s=10)
    told(one, step(1, loss=math.nan), live(1, 5), live(12, 5), *(mark("x", 0, severity="error") for _ in range(9)))
    seen = msgspec.json.decode(msgspec.json.encode(one.seen), type=Seen)
    other = watch(seen, stalled_s=10)
    assert titles(other, step(2, loss=math.nan), live(20, 5)) == []
    assert titles(other, live(30, 6)) == ["trainer goes on after 29 s"]
    assert titles(other, live(61, 7)) == ["trainer: 4 more errors within a minute"]
