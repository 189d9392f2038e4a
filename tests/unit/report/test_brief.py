"""The short form of a report: alarms, grouped warnings, and the lines at its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.golden.report.renderings import requests_report, stored_report

from telemetry import render
from telemetry.integrations.capture.capture_log import not_imported
from telemetry.report import brief
from telemetry.report.text import render_text
from telemetry.wire.events import Scalar
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report
from telemetry.wire.snapshot import (
    Accounting,
    AxisStat,
    CommandFacts,
    CounterStat,
    GaugeStat,
    MarkStat,
    MetricsSnapshot,
    ProducerStat,
    Progress,
    SelfCost,
)

RED = "\x1b[1;31m"


def report(**fields: Any) -> Report:
    made = {"run_id": "r1", "name": "job", "state": "COMPLETE", "completeness": "complete", **fields}
    return Report(snapshot=MetricsSnapshot(**made), source="file")


def with_collectors() -> dict[str, Any]:
    """A run of which only the collectors have recorded something."""
    account = {"emitted": 3, "received": 3, "applied": 3}
    return {
        "producers": [ProducerStat(producer="telemetry.collectors.1", name="collectors", **account)],
        "gauges": [GaugeStat(name="host.cpu", unit="%", value=50.0, min=2.0, max=98.0, events=3)],
    }


SOME = Accounting(emitted=3, received=3, applied=3)


def test_a_failed_command_comes_first_and_in_red() -> None:
    """A failed command comes first and in red, with its exit code or signal and its arguments.

    A command that succeeded is no alarm.
    """
    failed = report(accounting=SOME, command=CommandFacts(argv=["python", "a b.py"], exit_code=3))
    assert render_text(failed).splitlines()[0] == "command failed: exit code 3 · python 'a b.py'"
    assert render_text(failed, color=True).startswith(f"{RED}command failed: exit code 3")
    killed = report(accounting=SOME, command=CommandFacts(argv=["x"], signal="SIGTERM"))
    assert list(brief.alarms(killed)) == ["command ended by SIGTERM · x"]
    assert list(brief.alarms(report(accounting=SOME, command=CommandFacts(argv=["x"], exit_code=0)))) == []
    assert render(failed, "md").startswith("**command failed: exit code 3")


def test_a_program_that_failed_comes_first() -> None:
    """A program that an exception ended or that was killed comes first, even without `telemetry run`.

    Its data may be complete.
    """
    marks = [MarkStat(text="ValueError: boom", time_ns=1)]
    failed = report(accounting=SOME, reason="the program failed", marks=marks)
    assert list(brief.alarms(failed)) == ["the program failed", "ValueError: boom"]
    assert "finished" not in render_text(failed)
    text = render(failed, "html")
    assert "<strong>The program failed</strong><br>ValueError: boom" in text
    assert text.index('id="alarm"') < text.index("<strong>data complete</strong>")
    killed = report(accounting=SOME, reason="the program failed: process 7 was killed, or ended without finish()")
    assert render_text(killed).startswith(f"{killed.snapshot.reason}\ncomplete: job")
    assert render_text(killed).count("process 7") == 1


def test_complete_data_and_a_run_that_went_well_are_two_statements() -> None:
    """NaN is amber below the headline, which is not green then; a run that went well says by what that is known."""
    command, axis = CommandFacts(argv=["x"], exit_code=0), AxisStat(name="step", closed=9, values={"loss": None})
    well = report(accounting=SOME, command=command, axes=[axis])
    assert render_text(well, color=True).splitlines()[1] == "\x1b[1;32mwent well: exit code 0\x1b[0m"
    gate = GateResult(expression="p99(a) < 1ms", outcome="pass", reason="")
    assert brief.went_well(replace(well, gates=[gate])) == "went well: exit code 0 · 1 gate passed"
    poor = report(accounting=SOME, command=command, axes=[replace(axis, not_finite={"loss": 37})])
    headline, concern = render_text(poor, color=True).splitlines()[:2]
    assert headline.startswith("\x1b[1mcomplete: job, ")
    assert concern == "\x1b[1;33mloss is NaN or infinite, first at step 37\x1b[0m"
    assert "**loss is NaN or infinite, first at step 37**" in render(poor, "md")
    assert json.loads(render(poor, "json"))["concerns"] == [concern[7:-4]]
    text = render(poor, "html")
    assert text.index('class="banner warn" id="went"') < text.index('class="banner good" id="verdict"')
    assert "<strong>data complete</strong>" in text
    for other in (
        poor,
        report(accounting=SOME, command=replace(command, exit_code=1)),
        replace(well, gates=[replace(gate, outcome="inconclusive")]),
        report(accounting=SOME, state="LIVE"),
        report(accounting=SOME, marks=[MarkStat(text="ValueError: x", time_ns=1)]),
        report(accounting=SOME),
        replace(well, snapshot=replace(well.snapshot, completeness="incomplete")),
        report(),
    ):
        assert brief.went_well(other) == ""


def test_a_run_without_data_says_what_to_try() -> None:
    """The program may not call telemetry at all, or may use a library that can be captured."""
    empty = report(command=CommandFacts(argv=["true"], exit_code=0))
    assert list(brief.alarms(empty)) == ["nothing was recorded: does the program call telemetry.start()?"]
    assert "telemetry run --capture NAME" in render_text(empty)
    connected = report(producers=[ProducerStat(producer="p", completeness="complete")])
    assert list(brief.alarms(connected)) == ["nothing was recorded: 1 producer connected, but recorded no value"]
    lost = report(producers=[ProducerStat(producer=key, completeness=key) for key in ("complete", "incomplete")])
    assert list(brief.alarms(lost)) == [
        "no value arrived: 2 producers connected, and 1 of them did not say how much it had recorded"
    ]
    killed = report(producers=[ProducerStat(producer="p", completeness="incomplete")])
    assert list(brief.alarms(killed)) == [
        "no value arrived: 1 producer connected, and it did not say how much it had recorded"
    ]
    going_on = replace(empty, snapshot=replace(empty.snapshot, state="LIVE"))
    assert list(brief.alarms(going_on)) == []
    assert list(brief.alarms(report(**with_collectors()))) == list(brief.alarms(empty))
    marked = report(marks=[MarkStat(text="m", time_ns=1)])
    assert list(brief.alarms(marked)) == []


@pytest.mark.parametrize("producers", [[], [ProducerStat(producer="p", completeness="complete")]])
def test_a_capture_without_values_says_what_to_check(tmp_path: Path, producers: list[ProducerStat]) -> None:
    """The advice says whether a writer was made, and by which process.

    It also names the library that no process imported.
    """
    signs = ["7 wanted tensorboard,wandb,theirs", "8 booted /bin/python", "8 hooked tensorboard train.py"]
    (tmp_path / "capture.log").write_text("\n".join([*signs, "9 hooked tensorboard", "9 hooked theirs -c"]) + "\n")
    command = CommandFacts(argv=["python", "train.py"], exit_code=0)
    empty = report(command=command, directory=str(tmp_path), producers=producers)
    [alarm] = brief.alarms(empty)
    assert alarm == "nothing was recorded: the capture of tensorboard, wandb, theirs got no value"
    tensorboard, wandb, theirs = brief.advice(empty)
    by = "tensorboard was imported by train.py (process 8), a program (process 9), but logged nothing: "
    assert tensorboard.startswith(f"{by}does a process make a SummaryWriter")
    assert wandb == "wandb was not imported by any Python process that the capture reached"
    assert theirs == "theirs was imported by -c (process 9), but logged nothing: does it log through this library?"
    assert list(brief.advice(replace(empty, snapshot=replace(empty.snapshot, accounting=SOME)))) == []
    assert "--capture NAME" not in render_text(empty)
    (tmp_path / "capture.log").write_text("7 wanted lightning\n8 booted /bin/python\n")
    assert list(brief.alarms(empty)) == [f"nothing was recorded: {not_imported(['lightning'])}"]
    assert list(brief.advice(empty)) == []


def test_warnings_of_a_kind_are_one_line() -> None:
    """Warnings that differ only in numbers and quoted names are one line. Five kinds are shown."""
    same = [f"series `s{number}` is defined twice by p-{number}" for number in range(4)]
    others = [f"warning of kind {letter}" for letter in "abcdef"]
    lines = brief.warnings(report(warnings=[*same, *others])).lines
    assert lines[0] == "series `s0` is defined twice by p-0 (3 more like this)"
    assert len(lines) == 6
    assert lines[-1] == "2 more are in the full report"


def test_findings_beside_their_figures_are_no_warnings() -> None:
    """Too few values are marked in tables, losses have a table; the full report repeats them."""
    whole = replace(stored_report(), findings=["lossy: so it is"])
    assert "lossy: so it is" in brief.warnings(whole).lines
    assert brief.warnings(requests_report()).lines == []
    assert "needs 3,688 samples" in " ".join(render(requests_report(), full=True).split())


def test_the_end_has_parameters_cost_and_the_way_to_the_rest() -> None:
    """The end has parameters, cost and the way to the rest, in lines that a reader may skip."""
    made = report(
        accounting=SOME,
        params={"lr": 0.1, "amp": True, "note": "x" * 99, "slo.chat": "ttft:200ms", "telemetry.headline": '["a"]'},
        command=CommandFacts(argv=["bench"], exit_code=0, cpu_user_s=1.0, cpu_system_s=0.5, max_rss_bytes=1 << 20),
        cost=SelfCost(cpu_s=0.5, rss_bytes=50 << 20, ticks=100, ticks_late=50, journal_bytes=1024),
        directory="/data/runs/job-1",
    )
    assert brief.closing(made).lines == [
        f"parameters: lr 0.1 · amp true · note {'x' * 39}…",
        "command: bench · CPU 1.50 s · peak memory 1.00 MiB",
        "cost of telemetry: CPU 500 ms · memory 50.0 MiB · disk 1.00 KiB · "
        "50 of 100 ticks late: the machine was busy",
        "files: /data/runs/job-1",
        "all figures: telemetry report r1 --full, in a browser: telemetry open r1",
    ]
    elsewhere = replace(made, snapshot=replace(made.snapshot, directory="/data/my runs/job-1"))
    assert "telemetry report '/data/my runs/job-1' --full" in brief.closing(elsewhere).lines[-1]
    many = report(params={f"p{number}": number for number in range(20)})
    assert brief.closing(many).lines[0].endswith("p11 11 · 8 more")
    empty = report(params={"config": "{}", "help": "", "tags": "[]", "lr": 0.1, "batch": 0})
    assert brief.closing(empty).lines[0] == "parameters: lr 0.1 · batch 0"


def test_masked_values_are_counted_by_rule() -> None:
    """The rule for values whose name says that they are secret is said in words."""
    numbers = {"named": 1, "github": 3, "email": 1}
    counters = [
        CounterStat(name="telemetry.masked", labels={"rule": rule}, value=number, events=number)
        for rule, number in numbers.items()
    ]
    said = "masked: 3 github · 1 email · 1 value with a secret name"
    assert said in brief.closing(report(counters=counters)).lines


@pytest.mark.parametrize(
    ("params", "line"),
    [
        (
            {"git.commit": "0123456789abcdef", "git.branch": "main", "git.changed_files": 0},
            "commit 0123456789ab of branch main",
        ),
        ({"git.commit": "0123456789abcdef", "git.changed_files": 1}, "commit 0123456789ab · 1 changed file"),
        ({"git.branch": "fresh", "git.changed_files": 2}, "2 changed files"),
    ],
)
def test_the_end_has_the_commit(params: dict[str, Scalar], line: str) -> None:
    """The end of a report has the commit but no other facts of the surroundings.

    Those are no parameters of the user.
    """
    made = report(params={**params, "machine.cpu": "x", "packages.numpy": "2"})
    assert brief.closing(made).lines == [f"code: {line}"]
    assert brief.closing(report(params={"machine.cpu": "x"})).lines == []


def test_progress_is_shown_while_it_lacks_something() -> None:
    """A total that was reached is among the counters."""
    items = [Progress(name="done", done=5, total=5), Progress(name="left", done=2, total=5)]
    table = brief.progress(report(progress=items).snapshot).table
    assert table is not None
    assert table.rows == [["left", "2 of 5"]]


def test_marks_of_tracking_windows_are_left_out() -> None:
    """The table of windows has them; of the others the newest are shown."""
    made = requests_report().snapshot
    assert brief.marks(made).lines == []
    others = [MarkStat(text=f"m{number}", time_ns=number * 10**9) for number in range(9)]
    lines = brief.marks(replace(made, marks=[*others, *made.marks])).lines
    assert [line.split()[-1] for line in lines[1:]] == ["m5", "m6", "m7", "m8"]
    assert lines[0] == "the last 4 of 9"


def test_a_usual_report_fits_on_a_screen() -> None:
    """A load of one kind of request takes about fifty lines, and begins with the verdict."""
    whole = requests_report()
    wanted = replace(
        whole.snapshot, counters=[one for one in whole.snapshot.counters if one.name.startswith("llm")]
    )
    text = render(replace(whole, snapshot=wanted), width=80)
    assert len(text.splitlines()) <= 51
    assert text.startswith("complete: llm-load")
