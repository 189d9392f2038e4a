"""Tests of the names of figures, and of the error for a name that no figure has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from telemetry.errors import UsageError
from telemetry.judge.compare import MetricResult
from telemetry.judge.compare.figures import FigureKey, check, matches
from telemetry.report.comparison import figure_name

PLAIN = FigureKey("series", "latency", (), "p99")
ROUTED = FigureKey("series", "latency", (("code", "200"), ("route", "/a:8")), "p99")
SENT = FigureKey("counter", "sent", (("to", "b"),), "value")
WALL, CPU = (FigureKey("command", "", (), statistic) for statistic in ("wall", "cpu"))
WINDOWS = [
    FigureKey("series", f"llm.{word}", (("model", "a"), ("window", window)), statistic)
    for word in ("latency", "ttft")
    for window in ("w1", "w2")
    for statistic in ("mean", "p50", *(["rate"] if word == "latency" else []))
]


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("latency", [PLAIN, ROUTED]),
        ("latency:p99", [PLAIN, ROUTED]),
        ("lat*", [PLAIN, ROUTED]),
        ("*:p99", [PLAIN, ROUTED]),
        ("latency:p9?", [PLAIN, ROUTED]),
        ("latency{code=200,route=/a:8}", [ROUTED]),
        ("latency{code=200,route=/a:8}:p99", [ROUTED]),
        ("latency{*route=/a*}", [ROUTED]),
        ("*{*}:p99", [ROUTED]),
        ("sent{to=b}", [SENT]),
        ("command", [WALL, CPU]),
        ("command:wall", [WALL]),
        ("command CPU time", [CPU]),
        ("lat", []),
        ("Latency", []),
        ("latency:p9", []),
        ("latency{}", []),
        ("latency{route=/a:8}", []),
        ("latency{route=/a:8,code=200}", []),
        ("latency{code=200,route=/a:8", []),
        ("*200*", []),
        ("command wall p99", []),
    ],
)
def test_what_a_pattern_means(pattern: str, meant: list[FigureKey]) -> None:
    """A whole name with or without all its labels, with or without one figure."""
    assert [figure for figure in (PLAIN, ROUTED, SENT, WALL, CPU) if matches(figure, pattern)] == meant


@pytest.mark.parametrize("unit", ["ms", "requests", "a [b] c", ""])
@pytest.mark.parametrize(
    "figure",
    [
        PLAIN,
        ROUTED,
        SENT,
        WALL,
        CPU,
        replace(ROUTED, labels=(("odd", "[a]*?\n {x} p50"),), statistic="rate"),
        replace(SENT, name="bytes [sent]", statistic="rate"),
    ],
)
def test_what_a_comparison_prints_means_itself(figure: FigureKey, unit: str) -> None:
    """A printed name of a figure matches that figure, with its unit and with signs of patterns in it."""
    metric = MetricResult(
        of=figure.of, name=figure.name, labels=dict(figure.labels), statistic=figure.statistic, unit=unit
    )
    assert matches(figure, figure_name(metric))
    if figure.of == "series":
        assert not matches(replace(figure, statistic="mean"), figure_name(metric))
        assert not matches(replace(figure, labels=(("other", "x"),)), figure_name(metric)) or not figure.labels


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("llm.latncy", "did you mean llm.latency?"),
        ("llm.latncy:p50", "did you mean llm.latency:p50?"),
        ("llm.latncy mean", "did you mean llm.latency mean?"),
        (
            "llm.latency{window=w1}",
            "did you mean llm.latency{model=a,window=w1} or llm.latency{model=a,window=w2}?",
        ),
        ("llm.tft{model=a,window=w2}:p50", "llm.ttft{model=a,window=w2}:p50"),
        ("llm.ttft:rate", "llm.ttft has: mean, p50"),
        ("llm.ttft:p99", "llm.ttft has: mean, p50"),
        ("llm.ttft:", "llm.ttft has: mean, p50"),
        ("llm.ttft{model=a,window=w1} rate", "llm.ttft{model=a,window=w1} has: mean, p50"),
        ("comand", "did you mean command?"),
        ("xyz", "the runs have: command, llm.latency, llm.ttft"),
        ("", "the runs have: command, llm.latency, llm.ttft"),
        ("xyz:wall", "the runs have: command"),
        ("depth{of=q}", "depth{of=q} is a gauge, and gauges can't be compared"),
    ],
)
def test_a_name_that_nothing_has(pattern: str, hint: str) -> None:
    """The error for an unknown name gives the nearest name, or the names that there are."""
    with pytest.raises(UsageError) as wrong:
        check([pattern], [*WINDOWS, WALL], {"depth"})
    assert wrong.value.message == f"the runs have no figure {pattern!r}"
    assert hint in wrong.value.hint


def test_names_are_many() -> None:
    """A few of them are named, and what is named can be printed."""
    odd = [FigureKey("counter", f"\x1b{number}{'-' * 9}", (), "value") for number in range(1_500)]
    with pytest.raises(UsageError) as wrong:
        check(["zzz"], odd)
    assert wrong.value.hint.endswith(" and 1,497 more")
    assert wrong.value.hint.isprintable()


def test_runs_without_figures() -> None:
    """There is nothing to name."""
    with pytest.raises(UsageError, match="no figure 'latency'") as wrong:
        check(["latency"], [])
    assert not wrong.value.hint


def test_all_patterns_mean_something() -> None:
    """`check` raises no error if every pattern matches a figure."""
    check(["latency", "command:*"], [PLAIN, WALL])
    check([], [])
