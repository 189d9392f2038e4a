"""Pairs of runs as text, Markdown, JSON and JUnit, and as one line."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from tests.unit.report.html.samples import EVIL

from telemetry.judge.ab.model import (
    AbFigure,
    AbPair,
    AbResult,
    AbRun,
    AbSettings,
    Ending,
    FailedRequests,
    FigureVerdict,
    Verdict,
)
from telemetry.report import formats_of, render_as
from telemetry.report.ab import conclusion, progress

WALL = AbFigure(name="wall time", unit="s", better="lower")
CPU = AbFigure(name="CPU time", unit="s", better="lower", decides=False)
SETTINGS = AbSettings(before=["./before"], after=["./after"], labels=("./before", "./after"), seed=7)
PAIR = AbPair(
    before=AbRun(values={"wall time": 1.0, "CPU time": 0.5}),
    after=AbRun(values={"wall time": 1.041, "CPU time": 0.5}),
    first="after",
)
VOID = replace(PAIR, void="./after: exit code 7")


def state(verdict: Verdict, difference: float, low: float | None, high: float | None, **more: Any) -> FigureVerdict:
    return FigureVerdict(
        figure="wall time", verdict=verdict, pairs=17, difference=difference, low=low, high=high, **more
    )


def result(
    verdict: FigureVerdict | None = None, *, ending: Ending = "decided", settings: AbSettings = SETTINGS
) -> AbResult:
    worse = state("worse", 0.041, 0.032, 0.05)
    beside = FigureVerdict(figure="CPU time", pairs=17, difference=0.0, low=-0.01, high=0.012, needed=1234)
    return AbResult(
        settings=settings,
        most_pairs=60,
        seconds=38.0,
        figures=[WALL, CPU],
        pairs=[PAIR] * 17 + [VOID],
        verdicts=[verdict or worse, beside],
        ending=ending,
    )


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (state("worse", 0.041, 0.032, 0.05), "./after is 4.1 % slower (wall time; 3.2 % to 5 %, 17 pairs)"),
        (state("better", -0.041, -0.05, -0.032), "./after is 4.1 % faster (wall time; -5 % to -3.2 %, 17 pairs)"),
        (
            state("same", 0.002, -0.011, 0.014),
            "./after: no difference that matters (wall time; -1.1 % to 1.4 %, 17 pairs)",
        ),
        (
            state("cannot_tell", 0.011, -0.008, 0.03, needed=143),
            "can't tell: wall time +1.1 % (-0.8 % to 3 %, 17 pairs); about 140 pairs would tell",
        ),
        (state("cannot_tell", 0.011, None, 0.03), "can't tell: wall time +1.1 % (no limits yet, 17 pairs)"),
    ],
)
def test_the_verdict_is_one_sentence(verdict: FigureVerdict, words: str) -> None:
    """Each verdict has its sentence: side, size, figure, interval and pairs."""
    assert conclusion(result(verdict)) == words


def test_a_figure_that_is_no_time_is_higher_or_lower() -> None:
    """A rate that falls is worse, and its sentence says lower."""
    rate = result(state("worse", -0.2, -0.25, -0.1))
    rate = replace(
        rate, figures=[AbFigure(name="wall time", unit="1", better="higher")], verdicts=rate.verdicts[:1]
    )
    assert conclusion(rate) == "./after is 20 % lower (wall time; -25 % to -10 %, 17 pairs)"


def test_the_largest_difference_has_the_sentence() -> None:
    """Of several figures with the same verdict, the one that differs most is named."""
    both = result()
    other = replace(both.verdicts[0], figure="CPU time", difference=0.5)
    both = replace(both, figures=[WALL, replace(CPU, decides=True)], verdicts=[both.verdicts[0], other])
    assert conclusion(both).startswith("./after is 50 % slower (CPU time; ")


def test_text_has_the_verdict_the_figures_and_the_notes() -> None:
    """The first line is the verdict; the table has a row for each figure; notes count void pairs."""
    assert render_as("ab", result(), width=120).splitlines() == [
        "./after is 4.1 % slower (wall time; 3.2 % to 5 %, 17 pairs)",
        "17 pairs of ./before and ./after, in random order · 1 void · 38.0 s · seed 7",
        "smallest difference that matters: 2 % · at most 5 % of the verdicts are expected to be wrong",
        "",
        "  figure     before   after  difference       interval  pairs  needed  verdict",
        "  wall time  1.00 s  1.04 s      +4.1 %   3.2 % to 5 %     17       –  worse",
        "  CPU time   500 ms  500 ms         0 %  -1 % to 1.2 %     17   1,200  can't tell",
        "",
        "1 pair void: ./after: exit code 7",
        "shown beside, without a part in the verdict: CPU time",
    ]
    assert "\x1b[1;31m./after is" in render_as("ab", result(), color=True)
    assert all(len(line) <= 60 for line in render_as("ab", result(), width=60).splitlines())


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("pairs", "ended after 60 pairs (--pairs)"),
        ("budget", "ended after 10 min 0 s (--budget)"),
        ("stopped", "stopped by a signal"),
    ],
)
def test_an_end_without_a_verdict_is_named(ending: Ending, words: str) -> None:
    """The last line says why there are no more pairs."""
    assert render_as("ab", replace(result(ending=ending), budget_s=600.0)).splitlines()[-1] == words


def test_without_pairs_the_reason_is_the_verdict() -> None:
    """Void pairs are named in the sentence; so is a call that was stopped at once."""
    empty = replace(result(), verdicts=[FigureVerdict(figure="wall time")], figures=[WALL])
    void = "can't tell: 3 void pairs; the newest: ./after: exit code 7"
    assert conclusion(replace(empty, pairs=[VOID] * 3)) == void
    assert conclusion(replace(empty, pairs=[])) == "can't tell: no pair has ended"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({"wall time": 0.0}, {"wall time": 3.0}, "is 0 in a run: no ratio"),
        ({"wall time": -1.0}, {"wall time": 3.0}, "is below 0 in a run: no ratio"),
        ({"wall time": 1.0}, {}, "has no value in both runs of a pair"),
    ],
)
def test_a_figure_without_a_ratio_is_named(before: dict[str, float], after: dict[str, float], reason: str) -> None:
    """Pairs have ended, but a figure that is 0 on one side has no ratio: the sentence says which and why."""
    pair = AbPair(before=AbRun(values=before), after=AbRun(values=after), first="before")
    none = replace(result(), verdicts=[FigureVerdict(figure="wall time")], figures=[WALL], pairs=[pair] * 20)
    assert conclusion(none) == f"can't tell: wall time {reason}"
    beside = replace(result(), verdicts=[result().verdicts[0], FigureVerdict(figure="CPU time")])
    assert "CPU time has no value in both runs of a pair" in render_as("ab", replace(beside, pairs=[pair]))


def test_the_same_command_says_what_the_machine_can_find() -> None:
    """False alarms come first; without one, the smallest difference."""
    same = replace(SETTINGS, same=True)
    quiet = state("cannot_tell", 0.001, -0.01, 0.02, least_effect=0.018)
    assert conclusion(result(quiet, settings=same)) == (
        "no false alarm in 17 pairs of the same command; they find differences in wall time of 1.8 % or more"
    )
    few = state("cannot_tell", 0.001, None, None)
    assert conclusion(result(few, settings=same)).endswith("; too few to find any difference")
    alarm = state("worse", 0.041, 0.032, 0.05, least_effect=0.01)
    assert conclusion(result(alarm, settings=same)) == (
        "false alarm: the same command is 4.1 % slower (wall time; 3.2 % to 5 %, 17 pairs)"
    )


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (
            "worse",
            "./after fails more requests (0.1 % before, 99 % after, 17 pairs), so other figures can't be compared",
        ),
        ("cannot_tell", "can't tell: the share of failed requests differs (0.1 % before, 99 % after, 17 pairs)"),
    ],
)
@pytest.mark.parametrize("same", [False, True])
def test_failed_requests_come_first(verdict: Verdict, words: str, same: bool) -> None:
    """Shares of failed requests that differ are the verdict, in each form."""
    settings = replace(SETTINGS, same=same)
    failed = replace(
        result(state("cannot_tell", 9.0, 8.0, 10.0), settings=settings),
        failures=FailedRequests(before=0.001, after=0.99, verdict=verdict),
    )
    assert conclusion(failed) == words
    assert failed.verdict == verdict
    assert "no figure has a verdict: a side that fails more" in render_as("ab", failed)
    assert "failed requests: 0.1 % before, 99 % after" in progress(failed)
    root = ElementTree.fromstring(render_as("ab", failed, "junit"))
    assert [case.get("name") for case in root.iter("testcase")] == ["failed requests", "wall time"]
    assert (root.get("failures"), root.get("skipped")) == (("1", "1") if verdict == "worse" else ("0", "2"))


def test_markdown_has_the_same_lines() -> None:
    """Markdown begins with the verdict in bold, and has the table."""
    text = render_as("ab", result(), "md")
    assert text.startswith("**./after is 4.1 % slower (wall time; 3.2 % to 5 %, 17 pairs)**\n")
    assert "| wall time | 1.00 s | 1.04 s | +4.1 % | 3.2 % to 5 % | 17 | – | worse |" in text
    assert "- 1 pair void: ./after: exit code 7" in text


def test_json_has_the_verdict_and_all_pairs() -> None:
    """JSON has the sentence, the verdict, the settings and each pair."""
    document = json.loads(render_as("ab", result(), "json"))
    assert (document["verdict"], document["conclusion"]) == ("worse", conclusion(result()))
    assert len(document["pairs"]) == 18
    assert document["settings"]["seed"] == 7


@pytest.mark.parametrize(
    ("verdict", "tag"), [("worse", "failure"), ("cannot_tell", "skipped"), ("same", "system-out")]
)
def test_junit_has_a_case_for_each_figure_that_decides(verdict: Verdict, tag: str) -> None:
    """Worse fails, can't tell is skipped, anything else passes."""
    root = ElementTree.fromstring(render_as("ab", result(state(verdict, 0.041, 0.032, 0.05)), "junit"))
    (case,) = root.iter("testcase")
    assert [child.tag for child in case] == [tag]
    assert root.get("tests") == "1"
    assert root.get("failures") == str(int(tag == "failure"))
    assert case[0].text == conclusion(result(state(verdict, 0.041, 0.032, 0.05)))


def test_junit_without_figures_is_skipped() -> None:
    """Pairs that were all void are no success."""
    empty = replace(result(), figures=[], verdicts=[], pairs=[VOID])
    (case,) = ElementTree.fromstring(render_as("ab", empty, "junit")).iter("testcase")
    assert case[0].tag == "skipped"
    assert "1 void pair" in (case[0].text or "")


def test_the_page_has_the_interval_of_each_figure_and_all_pairs() -> None:
    """The page begins with the verdict; each figure has its bar, and a chart with both sides of each valid pair."""
    html = render_as("ab", result(), "html")
    assert f"{conclusion(result())}.</p>" in html
    forest = html.partition('id="forest"')[2].partition("</svg>")[0]
    assert forest.count("error-bar") == 2
    assert "error-bar bad-key" in forest
    assert "+4.1 % (3.2 % to 5 %)" in forest
    assert html.count('class="chart scatter"') == 2
    assert html.count('"name":"pair 17"') == 4
    assert '"name":"pair 18"' not in html
    assert "<td>18</td>" in html
    assert "style=" not in html.partition("</style>")[2].partition("<script>")[0]


def test_an_end_of_exactly_0_is_an_end() -> None:
    """An interval from 0 % to 0 % is a point, not a bar over the whole width."""
    html = render_as("ab", result(state("same", 0.0, 0.0, 0.0)), "html")
    x1, x2 = re.findall(r'error-bar calm-key" x1="([\d.]+)" x2="([\d.]+)"', html)[0]
    assert x1 == x2


@pytest.mark.parametrize(
    ("low", "high", "ticks"), [(0.17, 1.0, ["0 %", "+100 %"]), (-0.3, 0.5, ["-30 %", "0 %", "+50 %"])]
)
def test_the_ticks_of_intervals_do_not_cover_each_other(low: float, high: float, ticks: list[str]) -> None:
    """An end of the axis that is close to 0 has no tick of its own."""
    html = render_as("ab", result(state("worse", 0.4, low, high)), "html")
    forest = html.partition('id="forest"')[2].partition("</svg>")[0]
    assert re.findall(r'text-anchor="middle"[^>]*>([^<]*)<', forest) == ticks


def test_a_page_without_pairs_has_no_empty_section() -> None:
    """A page of void pairs has their reasons, and no figures."""
    html = render_as("ab", replace(result(), figures=[], verdicts=[], pairs=[VOID]), "html")
    assert 'id="forest"' not in html
    assert 'id="pairs"' not in html
    assert "./after: exit code 7" in html
    bare = replace(result(), verdicts=[FigureVerdict(figure=name) for name in ("wall time", "CPU time")], pairs=[])
    assert "no limits yet" in render_as("ab", bare, "html")


def test_progress_closes_in() -> None:
    """The line has the pair, the interval and the time left; a void pair has its reason."""
    open_state = state("cannot_tell", 0.011, -0.008, 0.03, needed=23)
    assert progress(replace(result(open_state, ending=""), pairs=[PAIR] * 17)) == (
        "pair 17 of 60 · wall time +1.1 % (-0.8 % to 3 %): not yet · about 6 more pairs, 13.4 s"
    )
    assert "void: ./after: exit code 7" in progress(result(open_state, ending=""))
    assert progress(replace(result(), pairs=[PAIR] * 17)).endswith("wall time +4.1 % (3.2 % to 5 %): worse")


@pytest.mark.parametrize("form", formats_of("ab"))
def test_text_from_outside_is_harmless(form: str) -> None:
    """Labels and reasons are from outside; no control character of theirs reaches the output."""
    hostile = replace(SETTINGS, labels=(EVIL, EVIL), before=[EVIL], after=[EVIL])
    evil = replace(result(settings=hostile), pairs=[PAIR, replace(VOID, void=EVIL)])
    text = render_as("ab", evil, form)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert all(character.isprintable() for character in progress(evil))
