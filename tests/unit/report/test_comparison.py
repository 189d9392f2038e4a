"""A comparison in words: every form says what the JSON says.

After a wanted change of the stored forms, run this file to store them anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from telemetry.errors import UsageError
from telemetry.judge.compare import (
    ONE_SIDED,
    BoundedFigure,
    ChangedSetting,
    Comparison,
    Curve,
    MetricResult,
    Noise,
    SideRun,
    largest_without_bounds,
)
from telemetry.judge.compare.model import WITHOUT_BOUNDS
from telemetry.report import render_as
from telemetry.report.comparison import (
    amount,
    change,
    comparison_content,
    comparison_facts,
    comparison_text,
    figure_name,
    headline,
    information,
    interval,
    obstacles,
    title,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "comparison"
NS = 10**9
STARTED_NS = 1_772_366_400 * NS


def runs(name: str, first: int, number: int) -> list[SideRun]:
    return [
        SideRun(
            run_id=f"{first + at:08x}",
            name=name,
            directory=f"/runs/{name}-{at}",
            started_ns=STARTED_NS + (first + 2 * at) * NS,
            seconds=0.8 + at / 10,
            completeness="complete",
            exit_code=0,
        )
        for at in range(number)
    ]


def sample() -> Comparison:
    """One of everything: a verdict of each kind, odd names, a calibration, notes, curves."""
    latency = MetricResult(
        of="series",
        statistic="p99",
        name="latency",
        labels={"route": "/a|b"},
        unit="ms",
        better="lower",
        verdict="worse",
        before=10.2,
        after=11.3,
        difference=0.108,
        low=0.081,
        high=0.1345,
        p_value=0.00001,
        p_adjusted=0.0002,
        method="pairs",
        before_values=[10.1, 10.3],
        after_values=[11.2, 11.4],
        noise=Noise(runs=10, low=-0.0122, high=0.0123, exceeded=True),
    )
    return Comparison(
        min_effect=0.02,
        paired=True,
        calibration="bench",
        calibration_argv=["./main/bench", "1"],
        calibration_runs=10,
        calibration_of=["before"],
        before=runs("main", 0, 6),
        after=runs("branch", 1, 6),
        settings=[
            ChangedSetting(name="lr", before=["1.0"], after=["1.6"]),
            ChangedSetting(name="seed", before=["1", "2", "3", "4"], after=["5"]),
            ChangedSetting(name="command", after=["--fast"]),
        ],
        metrics=[
            replace(
                latency,
                of="counter",
                statistic="value",
                name="errors",
                labels={},
                unit="1",
                before=0.0,
                after=3.5,
                difference=None,
                low=None,
                high=None,
                method="exact",
                reason="0 in every run before",
                noise=None,
            ),
            latency,
            replace(
                latency,
                statistic="rate",
                unit="1",
                better="higher",
                verdict="better",
                before=950.0,
                after=1_003.2,
                difference=0.056,
                low=0.04,
                high=0.072,
                reason="but within the noise of the calibration, -7.41 % … +8 %",
            ),
            replace(
                latency,
                of="counter",
                statistic="value",
                name="sent",
                labels={},
                unit="KiB",
                better="neither",
                verdict="changed",
                before=2_048.0,
                after=42_000.0,
                difference=19.5,
                low=18.0,
                high=21.0,
            ),
            replace(
                latency, of="command", statistic="wall", name="", labels={}, unit="s", verdict="same",
                before=0.8, after=0.804, difference=0.005, low=-0.004, high=0.014,
            ),
            *(
                replace(
                    latency, name=f"step {number}", labels={}, statistic="p50", verdict="not_shown",
                    before=1.0, after=1.05, difference=0.05, low=-0.01, high=0.11,
                    reason="significant alone, but among so many figures such a difference occurs by chance"
                    if number < 2 else "",
                )
                for number in range(8)
            ),
            MetricResult(
                of="series", statistic="p50", name="renamed\n", unit="ms", reason="only the runs after have it",
                after=4.0, after_values=[4.0],
            ),
            MetricResult(
                of="series", statistic="p99.9", name="latency", labels={"route": "/a|b"}, unit="ms",
                verdict="left_out", reason="needs 3,688 in each run, has at most 1,000",
            ),
            MetricResult(
                of="counter", statistic="value", name="read", unit="KiB", reason="different units: KiB, 1",
                before=3.0, before_values=[3.0], after=4.0, after_values=[4.0],
            ),
        ],
        curves=[
            Curve(
                name="latency", labels={"route": "/a|b"}, unit="ms",
                before=[(0.0, 5.0), (0.5, 7.0), (0.99, 10.2), (1.0, 12.0)],
                after=[(0.0, 5.1), (0.5, 7.7), (0.99, 11.3), (1.0, 19.0)],
            )
        ],
        notes=["all runs of one side are older"],
    )  # fmt: skip


def single() -> Comparison:
    """One run a side."""
    figure = MetricResult(
        of="series",
        statistic="p99",
        name="latency",
        unit="ms",
        better="lower",
        reason="the bounds within the two runs overlap; beyond the noise of the calibration, -6.02 % … +6.4 %",
        before=10.2,
        after=11.3,
        difference=0.108,
        before_within=BoundedFigure(value=10.2, low=10.0, high=10.4),
        after_within=BoundedFigure(value=11.3, low=10.3),
        noise=Noise(runs=10, low=-0.0602, high=0.064, exceeded=True),
    )
    wall = replace(
        figure,
        of="command",
        statistic="wall",
        name="",
        unit="s",
        reason="without bounds within a run",
        before_within=BoundedFigure(value=10.2),
        after_within=BoundedFigure(value=11.3),
        noise=None,
    )
    return Comparison(
        before=runs("main", 0, 1), after=runs("main", 1, 1), metrics=[figure, wall], notes=["one run"]
    )


FORMS: dict[str, Callable[[], str]] = {
    "comparison.json": lambda: render_as("comparison", sample(), "json"),
    "comparison.md": lambda: render_as("comparison", sample(), "md"),
    "text_80.txt": lambda: render_as("comparison", sample(), width=80),
    "whole_80.txt": lambda: render_as("comparison", sample(), width=80, whole=True),
    "text_120.txt": lambda: render_as("comparison", sample(), width=120),
    "single_120.txt": lambda: render_as("comparison", single(), width=120),
}


@pytest.mark.parametrize("name", FORMS)
def test_stored_forms(name: str) -> None:
    """Byte for byte: a change of what people and scripts read is made on purpose."""
    assert FORMS[name]() == (GOLDEN / name).read_text()


def test_json_is_strict_and_whole() -> None:
    """The JSON has a version, every figure and no infinity, and it reads back as it was."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text = render_as("comparison", sample(), "json")
    document = json.loads(text, parse_constant=refuse)
    assert document["schema_version"] == 1
    assert len(document["metrics"]) == len(sample().metrics)
    assert document["headline"] == comparison_text(sample()).partition("\n")[0]
    assert msgspec.json.decode(text, type=Comparison) == sample()


@pytest.mark.parametrize("width", [80, 120])
def test_text_keeps_within_its_width(width: int) -> None:
    """Columns go rather than lines break."""
    for comparison in (sample(), single()):
        lines = render_as("comparison", comparison, width=width).splitlines()
        assert [line for line in lines[1:] if len(line) > width] == []


def test_text_from_outside_can_t_break_a_line() -> None:
    """Control characters become visible."""
    assert "renamed\n" not in render_as("comparison", sample(), whole=True)
    assert r"renamed\n" in render_as("comparison", sample(), whole=True)
    assert r"/a\|b" in render_as("comparison", sample(), "md")


def test_two_single_runs_are_told_in_words() -> None:
    """The median of a time by its factor, and that the noise is unknown; the counts follow."""
    within = {"before_within": BoundedFigure(value=47.9), "after_within": BoundedFigure(value=4.6)}
    times = MetricResult(
        of="series", statistic="p50", name="latency", unit="ms", better="lower", verdict="differs",
        before=47.9, after=4.6, difference=-0.904, **within,
    )  # fmt: skip
    rate = replace(times, name="tokens", statistic="last", unit="", better="higher", before=1.0, after=1.2)
    one = replace(single(), metrics=[replace(rate, difference=0.2), times])
    first, second, *_ = comparison_text(one).splitlines()
    assert first == "after is 10.4× faster at latency p50 (47.9 → 4.60 ms); one run a side: noise unknown"
    assert second == "2 figures of two single runs: 2 differ"
    assert headline(replace(one, metrics=[replace(rate, difference=0.2)])).startswith(
        "after is 20 % higher at tokens last (1 → 1.20)"
    )
    slower = replace(times, before=4.6, after=5.06, difference=0.1, noise=Noise(runs=9, low=-0.0291, high=0.03))
    assert headline(replace(one, metrics=[slower])) == (
        "after is 10 % slower at latency p50 (4.60 → 5.06 ms); one run a side: beyond the noise of the "
        "calibration, -2.91 % … +3 %"
    )
    assert all("after is 10.4× faster" in render_as("comparison", one, form) for form in ("md", "html"))
    assert json.loads(render_as("comparison", one, "json"))["headline"] == first


def test_what_can_t_be_told_is_one_line_unless_there_is_nothing_else() -> None:
    """Figures that can't be told are one line with their reasons, unless there are no others.

    A page has them behind a closed line.
    """
    told = sample()
    text = " ".join(comparison_text(told).split())
    assert "2 figures: only the runs after have it (1), different units: KiB, 1 (1); --all shows them" in text
    assert "--all" not in comparison_text(told, whole=True)
    alone = replace(told, metrics=[one for one in told.metrics if one.verdict == "cannot_tell"])
    assert "--all" not in comparison_text(alone)
    assert "<details><summary>2 figures that can&#x27;t be told</summary>" in render_as("comparison", told, "html")


def test_large_differences_of_figures_without_bounds_are_named() -> None:
    """Two trainings have a speed each, which no bounds go with. It is what their owner looks for."""
    figure = single().metrics[0]
    speed = replace(
        figure, of="steps", name="step", statistic="rate", unit="1", better="higher", reason=WITHOUT_BOUNDS
    )
    speed = replace(speed, before=47.7, after=32.1, difference=-0.327, before_within=BoundedFigure(value=47.7))
    speed = replace(speed, after_within=BoundedFigure(value=32.1))
    small, neither = replace(speed, name="small", difference=0.001), replace(speed, name="odd", better="neither")
    told = replace(single(), min_effect=0.05, metrics=[speed, small, neither, replace(figure, verdict="same")])
    assert [one.name for one in largest_without_bounds(told)] == ["step"]
    words = "largest without bounds: step rate 47.7/s → 32.1/s (-32.7 %)"
    assert words in comparison_text(told)
    assert f"<summary>3 figures that can&#x27;t be told; {words}</summary>" in render_as("comparison", told, "html")


def test_a_run_outside_of_many_is_told_by_figures() -> None:
    """Below the headline, since no figure has a verdict; on the page, too."""
    figure = replace(
        single().metrics[0], before_within=None, after_within=None, noise=None, before_values=[10.1, 10.3],
        after_values=[50.0], after=50.0, difference=3.9, reason="one run after: it is above all of the 2 before",
    )  # fmt: skip
    told = replace(single(), before=runs("main", 0, 2), min_effect=0.05, metrics=[figure])
    line = "outside all runs of the other side: latency p99 10.2 ms → 50.0 ms (+390 %)"
    assert comparison_text(told).splitlines()[1] == line
    assert f"<p>{line}</p>" in render_as("comparison", told, "html")


def test_figures_with_too_few_values_are_one_line() -> None:
    """Figures with too few values are one line, because they say nothing about the runs.

    On request all of them have a row.
    """
    text = comparison_text(sample())
    assert "1 figure; --all shows it" in text.partition("Too few values\n")[2]
    assert "--all" not in comparison_text(sample(), whole=True).partition("Too few values\n")[2]


def test_bounds_have_columns_where_a_figure_has_them() -> None:
    """A table of figures without bounds would have two empty ones."""
    figure = single().metrics[0]
    plain = replace(
        figure, noise=None, before_within=BoundedFigure(value=1.0), after_within=BoundedFigure(value=1.0)
    )
    heads = [head.title for head in information([plain]).columns]
    assert heads == ["figure", "before", "after", "difference"]
    assert [head.title for head in information([plain, figure]).columns].count("bounds within the run") == 2


@pytest.mark.parametrize("form", ["text", "md", "html"])
def test_only_what_is_shown_not_to_differ_is_said_not_to(form: str) -> None:
    """Overlapping bounds can't tell, and noise shows no difference: both stand apart from what is the same."""
    figure = single().metrics[0]
    same, noisy = replace(figure, name="same", verdict="same"), replace(figure, name="noisy", verdict="not_shown")
    whole = render_as("comparison", replace(single(), metrics=[same, noisy, figure]), form, whole=True)
    names = ("same p99", "noisy p99", "latency p99")
    titles = "No difference that matters in these two runs", "No difference shown in these two runs", "Cannot tell"
    parts = [whole.partition(title)[2] for title in titles]
    shown = [[name for name in names if name in part] for part in parts]
    assert shown == [list(names), list(names[1:]), list(names[2:])]


def test_colour_is_asked_for() -> None:
    """The headline says the verdict in it."""
    assert "\x1b" not in render_as("comparison", sample())
    assert render_as("comparison", sample(), color=True).startswith("\x1b[1;31mworse: 2 worse, ")


def test_figures_without_a_difference_have_a_row_each() -> None:
    """Figures without a difference have a row each, with the interval of the verdict.

    Below them is what each verdict means.
    """
    (section,) = [part for part in comparison_content(sample()).sections if part.title == "Without a difference"]
    assert section.table is not None
    assert section.table.rows[0][0] == "command wall time"
    assert section.table.rows[0][-2:] == ["-0.4 % … +1.4 %", "no difference that matters"]
    assert [row[-1] for row in section.table.rows[1:]] == ["no difference shown"] * 8
    assert section.notes[0] == "no difference that matters: shown to be within ±2 %"
    assert len(section.notes) == 3


def test_very_many_figures_are_counted() -> None:
    """A text of thousands of rows helps nobody; what it leaves out is said."""
    many = [
        MetricResult(of="series", statistic="p50", name=f"s{number}", verdict=verdict)
        for verdict in ("same", "left_out")
        for number in range(203)
    ]
    text = comparison_text(Comparison(metrics=many), whole=True)
    assert text.count("3 more figures are in the JSON form") == 2
    assert ("s199 p50" in text, "s200 p50" in text) == (True, False)


def test_goodput_attainment_and_steps_have_their_own_amounts() -> None:
    """Requests a second, percent, and plain numbers."""
    good = MetricResult(of="requests", name="llm", labels={"window": "w"}, statistic="goodput", unit="requests")
    assert (figure_name(good), amount(good, 20.5)) == ("llm{window=w} goodput", "20.5/s")
    share = replace(good, name="llm.ttft", statistic="attainment", unit="")
    assert (figure_name(share), amount(share, 0.9871)) == ("llm.ttft{window=w} attainment", "98.7 %")
    loss = MetricResult(of="steps", name="loss", labels={"axis": "train"}, statistic="last")
    assert (figure_name(loss), amount(loss, 0.12345)) == ("loss{axis=train} last", "0.123")
    steps = MetricResult(of="steps", name="train", statistic="steps")
    assert (figure_name(steps), amount(steps, 12_000.0)) == ("train steps", "12,000")


def test_one_figure_that_is_tested_has_no_others() -> None:
    """A single tested figure is called the only one, because it is not held together with others."""
    whole = sample()
    tested = [metric for metric in whole.metrics if metric.p_adjusted is not None]
    for metrics, said in (
        (tested, f"for all {len(tested)} figures together"),
        (tested[:1], "for the only figure"),
    ):
        facts = " ".join(comparison_facts(replace(whole, metrics=metrics)))
        assert f"verdicts: 95 % {said} · " in facts


def test_what_one_side_has_alone_is_told_once() -> None:
    """Figures that one side has alone are named once by instrument, not figure by figure.

    The list is no longer than can be read.
    """
    before = [
        MetricResult(of="series", statistic=statistic, name=f"s{number:03d}", labels=labels, reason=ONE_SIDED[0])
        for number in range(103)
        for labels in ({}, {"window": "measured"})
        for statistic in ("mean", "p50", "rate")
    ]
    after = [MetricResult(of="command", statistic="cpu", unit="s", reason=ONE_SIDED[1])]
    section = obstacles([*before, *after])
    assert section.lines[0].startswith("only the runs before have s000, s000{window=measured}, s001, ")
    assert section.lines[0].endswith("s099, s099{window=measured}, 6 more")
    assert section.lines[1:] == ["only the runs after have command CPU time"]
    assert section.table is None


def test_names_and_amounts_of_figures() -> None:
    """A rate of a series counts values, or what its unit says; a counter's total needs no word."""
    metric = sample().metrics[1]
    assert figure_name(metric) == "latency{route=/a|b} p99"
    assert amount(metric, 10.2) == "10.2 ms"
    assert interval(metric) == "+8.1 % … +13.5 %"
    rate = sample().metrics[2]
    assert (figure_name(rate), amount(rate, 1_003.2)) == ("latency{route=/a|b} rate", "1.00 k/s")
    sent = sample().metrics[3]
    assert (figure_name(sent), amount(sent, 2_048.0)) == ("sent", "2.00 MiB")
    odd = replace(sent, unit="tokens", statistic="rate")
    assert (figure_name(odd), amount(odd, 5.0)) == ("sent [tokens] rate", "5/s")
    tokens = replace(rate, name="llm.output_tokens", labels={}, unit="tokens")
    assert (figure_name(tokens), amount(tokens, 1_003.2)) == ("llm.output_tokens [tokens] rate", "1.00 k/s")
    errors = sample().metrics[0]
    assert (change(errors), interval(errors)) == ("from 0", "")
    assert figure_name(sample().metrics[4]) == "command wall time"


def test_the_largest_differences_and_the_settings_are_said_first() -> None:
    """One line each, below the verdict, in text and in Markdown."""
    _, largest, differs, *_ = comparison_text(sample(), width=400).splitlines()
    assert largest == (
        "largest differences: errors 0 → 3.50 (from 0) · latency{route=/a|b} p99 10.2 ms → 11.3 ms (+10.8 %) · "
        "sent 2.00 MiB → 41.0 MiB (+1,950 %)"
    )
    assert differs == "differs: lr 1.0 → 1.6 · seed 1, 2, 3, 1 more → 5 · command – → --fast"
    assert (
        render_as("comparison", sample(), "md").splitlines()[2].startswith("largest differences: errors 0 → 3.50")
    )
    calm = replace(sample(), metrics=[], settings=[])
    assert comparison_text(calm).splitlines()[1].startswith("before: ")


def test_the_title_names_both_sides() -> None:
    """Run ids tell two runs of one name apart; several runs of one name are counted."""
    assert title(sample()) == "main against branch"
    assert title(single()) == "main 00000000 against 00000001"
    assert title(replace(single(), after=runs("main", 1, 6))) == "main 1 run against 6 runs"


def test_an_unknown_format_is_said() -> None:
    """The error for an unknown format lists the known ones."""
    with pytest.raises(UsageError, match="one of text, json, md, html"):
        render_as("comparison", sample(), "csv")


if __name__ == "__main__":
    for form, made in FORMS.items():
        (GOLDEN / form).write_text(made())
