"""Tests that the content of a report comes from its numbers and is the same in all forms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.golden.report.renderings import requests_report, stored_report
from tests.unit.test_request_model import counter, series, snapshot

from telemetry import render
from telemetry.common import formatting
from telemetry.errors import UsageError
from telemetry.history import RecordedRun
from telemetry.report import brief
from telemetry.report.content import cost, marks, params, surroundings, time_range_words, warnings
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.gates import GateResult, worst
from telemetry.wire.report import Bounds, Report, SeriesBounds, SeriesOverTime, SeriesPoint, TimeRange
from telemetry.wire.requests import COMPLETED, ISSUED, LATENCY
from telemetry.wire.snapshot import (
    Accounting,
    CommandFacts,
    CounterStat,
    GaugeStat,
    MarkStat,
    MetricsSnapshot,
    ProducerStat,
    Progress,
    SelfCost,
    SeriesStat,
)
from telemetry.wire.units import BYTES, TIME_NS

NUMBER = re.compile(r"\d[\d.,:e+-]*")
UNITS = ["", "tokens", "B", *TIME_NS, *BYTES]

naturals = st.integers(0, 10**15)
positives = st.floats(0, 1e12)
units = st.sampled_from(UNITS)
reasons = st.dictionaries(st.sampled_from([reason.value for reason in Reason]), naturals, max_size=4)
snapshots = st.builds(
    MetricsSnapshot,
    run_id=st.just("r"),
    name=st.just("job"),
    state=st.sampled_from(["LIVE", "COMPLETE"]),
    elapsed_s=positives,
    window_s=st.floats(1, 100),
    started_ns=st.integers(1, 2**60),
    time_ns=st.integers(1, 2**60),
    accounting=st.builds(
        Accounting, emitted=naturals, applied=naturals, missing=naturals, dropped=reasons, bad_frames=reasons
    ),
    producers=st.lists(
        st.builds(
            ProducerStat,
            producer=st.just("p"),
            status=st.sampled_from(["live", "late", "lost"]),
            emitted=naturals,
            missing=naturals,
            applied=naturals,
            repaired=naturals,
            unrepairable=naturals,
            unrepairable_batches=st.lists(st.tuples(naturals, naturals), max_size=6),
            last_event_ns=st.integers(0, 2**60),
        ),
        max_size=3,
    ),
    series=st.lists(
        st.builds(
            SeriesStat,
            name=st.just("s"),
            unit=units,
            count=naturals,
            min=positives,
            max=positives,
            mean=positives,
            stddev=positives,
            percentiles=st.dictionaries(st.sampled_from(["50", "99.9"]), positives),
            error_bound=st.none() | st.floats(0, 0.1),
            resolution=positives,
            below=naturals,
        ),
        max_size=3,
    ),
    counters=st.lists(
        st.builds(CounterStat, name=st.just("c"), unit=units, value=naturals, rate=positives), max_size=3
    ),
    gauges=st.lists(
        st.builds(GaugeStat, name=st.just("g"), unit=units, value=positives, min=positives), max_size=3
    ),
    progress=st.lists(st.builds(Progress, name=st.just("c"), done=positives, total=positives), max_size=2),
    marks=st.lists(st.builds(MarkStat, text=st.just("m"), time_ns=st.integers(1, 2**60)), max_size=2),
    command=st.none() | st.builds(CommandFacts, argv=st.just(["x"]), wall_s=positives, max_rss_bytes=naturals),
    cost=st.builds(SelfCost, cpu_s=positives, ticks=naturals, ticks_late=naturals, tick_ms_max=positives),
)


percentiles = st.dictionaries(st.sampled_from(["50", "99", "99.9"]), positives)
bounds = st.builds(Bounds, low=st.none() | positives, high=st.none() | positives, beyond=naturals)
points = st.builds(
    SeriesPoint,
    start_s=positives,
    end_s=positives,
    count=naturals,
    rate=positives,
    min=st.none() | positives,
    max=st.none() | positives,
    percentiles=percentiles,
)
reports = st.builds(
    Report,
    snapshot=snapshots,
    source=st.just("file"),
    time_range=st.none()
    | st.builds(
        TimeRange,
        start_s=positives,
        end_s=positives,
        chosen=st.sampled_from(["given", "trim_warmup", "steady"]),
        found=st.booleans(),
        reason=st.sampled_from(["", "so it is"]),
    ),
    bounds=st.lists(
        st.builds(
            SeriesBounds,
            name=st.just("s"),
            confidence=st.floats(0.5, 0.999),
            percentiles=st.dictionaries(st.sampled_from(["50", "99.9"]), bounds),
        ),
        max_size=2,
    ),
    step_s=positives,
    over_time=st.lists(
        st.builds(SeriesOverTime, name=st.just("s"), unit=units, points=st.lists(points, max_size=4)), max_size=5
    ),
    findings=st.lists(st.just("too few"), max_size=1),
    gates=st.lists(
        st.builds(
            GateResult,
            expression=st.just("lost == none"),
            outcome=st.sampled_from(["pass", "fail", "inconclusive"]),
            reason=st.just("none"),
        ),
        max_size=2,
    ),
)


@settings(max_examples=min(60, settings().max_examples), deadline=None)
@given(reports, st.booleans(), st.booleans())
def test_every_number_comes_from_the_report(report: Report, steps: bool, full: bool) -> None:
    """Each number is one of the JSON form, rounded, but for sums, ages, and rates over the whole run."""
    snapshot, document = report.snapshot, json.loads(render(report, "json"))
    ages = [max(0, snapshot.time_ns - stat.last_event_ns) for stat in snapshot.producers]
    seconds = (
        snapshot.elapsed_s if report.time_range is None else report.time_range.end_s - report.time_range.start_s
    )
    totals = [*(stat.value for stat in snapshot.counters), *(stat.count for stat in snapshot.series)]
    rates = [total / seconds for total in totals if seconds > 0.0]
    known = {*written(document), *written([age / 1e9 for age in ages]), *written(rates)}
    command = snapshot.command
    known.update(written([command.cpu_user_s + command.cpu_system_s] if command is not None else []))
    known.update({"0", "3", "99"} if command is not None and report.gates else set())  # exit codes
    known.update(number.strip(".,:") for text in document["findings"] for number in NUMBER.findall(text))
    alarms = len(list(brief.alarms(report)))
    alarms += worst(report.gates) != "pass"
    first, *lines = render(report, width=200, steps=steps, full=full).splitlines()[alarms:]
    for line in lines:
        for number in NUMBER.findall(line.split("why")[0].replace("2^53", "")):
            assert number.strip(".,:") in known, (number, line)
    account = snapshot.accounting
    said = [account.applied, *([account.lost] if account.lost or not report.unknown else [])]
    if not report.unknown:
        said.append(account.emitted)
    assert {number.strip(",") for number in NUMBER.findall(first.removesuffix(report.unknown))} == {
        f"{value:,}" for value in said
    }


def test_after_the_end_nobody_is_live() -> None:
    """A table of a run that is over says who never ended; while it goes on, who is there."""
    snapshot = MetricsSnapshot(
        run_id="r",
        name="job",
        state="INTERRUPTED",
        completeness="interrupted",
        producers=[ProducerStat(producer="p")],
    )
    over = render(Report(snapshot=snapshot, source="file"))
    assert " not ended " in over
    assert " live " not in over
    going_on = Report(snapshot=replace(snapshot, state="LIVE", completeness="incomplete"), source="status")
    assert " live " in render(going_on)


def written(value: object) -> Iterator[str]:
    """All ways in which the numbers of a document may be written."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from NUMBER.findall(str(key))
            yield from written(item)
    elif isinstance(value, list | tuple):
        yield from (str(n) for n in range(len(value) + 1))
        for item in value:
            yield from written(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        forms = [formatting.count(value), formatting.percent(value), formatting.duration_s(value), f"{value:g}"]
        forms += [formatting.rate(value, unit) for unit in UNITS] + [
            formatting.quantity(value, unit) for unit in UNITS
        ]
        if isinstance(value, int):
            forms += [formatting.timestamp(value % 2**61), formatting.clock_time(value % 2**61)]
        for form in forms:
            yield from (number.strip(".,:") for number in NUMBER.findall(form))


@settings(max_examples=30, deadline=None)
@given(reports, st.booleans())
def test_text_and_markdown_say_the_same(report: Report, full: bool) -> None:
    """A wide text and the Markdown hold the same words in the same order, layout and what is over time apart."""
    report = replace(report, over_time=[])
    markdown = re.sub(
        r"\\([\\`*_{}\[\]<>|~#])", r"\1", re.sub(r"^\|[ :|-]*$", "", render(report, "md", full=full), flags=re.M)
    )
    layout = re.compile(r"^(\*\*|### |- |\| )|(\*\*| \|)$|(?<= )\|(?= )", re.MULTILINE)
    assert layout.sub(" ", markdown).split() == render(report, width=2_000, full=full).split()


def test_json_has_the_names_of_the_final_file() -> None:
    """The JSON form is the final file, plus all other fields of the report and what it says of itself."""
    report = stored_report()
    document = json.loads(render(report, "json"))
    assert {name: document.pop(name) for name in ("verdict", "headline", "went_well", "concerns")} == {
        "verdict": "incomplete",
        "headline": report.headline(),
        "went_well": "",
        "concerns": [],
    }
    fields = msgspec.json.decode(msgspec.json.encode(report))
    assert {**document.pop("snapshot", {}), **document} == {**fields.pop("snapshot"), **fields}


def test_percentiles_of_any_name_are_shown() -> None:
    """A result that somebody tampered with is shown all the same, its numbers first."""
    odd = SeriesStat(name="s", count=1, percentiles={"99": 2.0, "abc": 1.0, "\x1b[2J": 1.0, "9": 1.0})
    text = render(
        Report(snapshot=MetricsSnapshot(run_id="r", name="n", series=[odd]), source="file"), width=200, full=True
    )
    assert text.index("p9 ") < text.index("p99") < text.index("pabc")
    assert all(line.isprintable() for line in text.splitlines())


def test_unknown_format_is_a_usage_error() -> None:
    """A format nobody knows names those that exist."""
    with pytest.raises(UsageError, match="text, json, md, csv, html, hgrm, junit"):
        render(stored_report(), "pdf")  # type: ignore[arg-type]


def test_a_part_that_was_not_found_says_what_the_numbers_are_of() -> None:
    """The sentence names the part between `--from` and `--to` if the numbers are of that part."""
    time_range = TimeRange(start_s=5.0, end_s=12.0, chosen="steady", found=False, reason="it drifts")
    assert time_range_words(time_range) == (
        "no steady time range was found between 5.00 s and 12.0 s of the run, so this shows that "
        "whole time range: it drifts"
    )


FEW = series(LATENCY, [5, 6, 7])
BARE = snapshot(counter(ISSUED, 3), counter(COMPLETED, 3), FEW)


@pytest.mark.parametrize("form", ["text", "md", "html", "json"])
@pytest.mark.parametrize("source", ["pubsub", "last_live"])
def test_a_result_without_its_history_is_judged_by_itself(form: Any, source: Any) -> None:
    """A report without its history is rendered as by a command that finds no history.

    Marks, findings and requests are the same.
    """
    state = "COMPLETE" if source == "pubsub" else "LIVE"
    bare = Report(snapshot=replace(BARE, state=state), source=source)
    assert render(bare, form, full=True) == render(RecordedRun(bare, None).report(), form, full=True)
    told = "too few values for any percentile of llm.latency: 3 samples" in render(bare, form, full=True)
    assert told or form == "html"  # which marks them
    assert "*7.00 ns" in render(bare, form) or form == "json"


def test_what_was_read_with_its_history_is_left_as_it_is() -> None:
    """`render` adds no findings to a report that has some, to a part of a run or to a live run."""
    known = replace(Report(snapshot=BARE, source="file"), findings=["so it is"])
    assert "too few" not in render(known)
    part = replace(known, findings=[], time_range=TimeRange(start_s=0.0, end_s=1.0, chosen="given"))
    assert "too few" not in render(part)
    assert "too few" not in render(
        replace(known, findings=[], source="status", snapshot=replace(BARE, state="LIVE"))
    )


@pytest.mark.parametrize("form", ["hgrm", "junit"])
def test_forms_without_findings_need_no_history(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms that show no findings are rendered without working any out."""
    monkeypatch.setattr("telemetry.history.findings.alone", None)
    assert render(Report(snapshot=BARE, source="file"), form)


def test_a_sentence_above_the_figures_is_no_warning_as_well() -> None:
    """A late start of requests is a finding in JSON and a sentence above the latencies in text.

    The sentence appears once.
    """
    late = "requests of llm{model=a-13b}, window measured started up to 2.00 s late"
    assert late in json.loads(render(requests_report(), "json"))["findings"][0]
    for form in ("text", "md"):
        said = render(requests_report(), form, width=300).replace("\\", "")
        assert said.count(late) == 1
        assert said.index(late) < said.index("window  " if form == "text" else "| window |")
    assert late not in " ".join(warnings(requests_report()).lines)


def test_values_of_parameters_are_cut_by_columns() -> None:
    """Wide characters take two, so the table is as wide with them; a note says where the whole value is."""
    said = params(replace(BARE, params={"a": "日" * 40, "b": "x" * 56}))
    assert said.table is not None
    assert [row[1] for row in said.table.rows] == ["日" * 27 + "…", "x" * 56]
    assert said.notes == ["values that end with … are complete in the JSON form"]
    assert params(replace(BARE, params={"b": "x" * 56})).notes == []


def test_code_and_machine_have_a_section_of_their_own() -> None:
    """Packages, the commit and the like have a section apart, so that they don't hide the parameters."""
    made = replace(
        BARE, params={"packages.torch": "2.6.0", "lr": 0.1, "git.commit": "c0ffee", "env.name": "CartPole"}
    )
    own, environment = params(made).table, surroundings(made).table
    assert own is not None
    assert environment is not None
    assert own.rows == [["lr", "0.1"], ["env.name", "CartPole"]]
    assert environment.rows == [["packages.torch", "2.6.0"], ["git.commit", "c0ffee"]]
    assert not surroundings(BARE)


def test_one_is_singular() -> None:
    """One frame and one tick are singular in the line about the cost."""
    (line,) = cost(replace(BARE, cost=SelfCost(ticks=1, ticks_late=1, frames=1))).lines
    assert "in 1 frame ·" in line
    assert "1 of 1 tick late" in line


def test_marks_stand_in_the_order_of_their_times() -> None:
    """However late one came of another source; of one moment as they came."""
    at_s = ((3, "c"), (1, "a"), (2, "b"), (1, "a2"))
    known = [MarkStat(text=text, time_ns=seconds * 10**9) for seconds, text in at_s]
    found = marks(MetricsSnapshot(run_id="r", name="n", state="COMPLETE", marks=known))
    assert [line.split()[-1] for line in found.lines] == ["a", "a2", "b", "c"]


@pytest.mark.parametrize("reason", ["the command was killed by SIGINT", "the command exited with code 3"])
def test_how_the_command_ended_is_not_said_again_as_the_reason(reason: str) -> None:
    """Another reason is, such as a gate that ended the command."""
    ended = CommandFacts(argv=["bench"], signal="SIGINT", exit_code=None)
    shown = MetricsSnapshot(run_id="r", name="job", state="COMPLETE", command=ended, reason=reason)
    assert reason not in render(Report(snapshot=shown, source="file"), "text")
    by_gate = replace(shown, reason="ended by a gate")
    assert "ended by a gate" in render(Report(snapshot=by_gate, source="file"), "text")


@pytest.mark.parametrize(("known", "drawn"), [(2, False), (3, True)])
def test_two_values_are_no_course(known: int, drawn: bool) -> None:
    """A bar or two say nothing that the percentiles beside them do not say."""
    stat = SeriesStat(name="latency", unit="ns", count=9, percentiles={"99": 5})
    points = [
        SeriesPoint(start_s=n, end_s=n + 1, count=3, percentiles={"99": 5} if n < known else {}) for n in range(4)
    ]
    over_time = [SeriesOverTime(name="latency", labels={}, unit="ns", points=points)]
    shown = MetricsSnapshot(run_id="r", name="job", state="COMPLETE", series=[stat], elapsed_s=4.0)
    text = render(Report(snapshot=shown, source="file", over_time=over_time), "text", width=160)
    assert ("p99 over time" in text) is drawn
