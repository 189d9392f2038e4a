"""Pairs of runs where a change is reviewed: the summary, its picture, and the annotations."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from tests.unit.report.html.samples import EVIL
from tests.unit.report.test_ab import PAIR, SETTINGS, VOID, WALL, result, state

from telemetry.judge.ab.model import AbResult, FailedRequests, FigureVerdict, Verdict
from telemetry.report import render_as
from telemetry.report.ab import conclusion
from telemetry.report.ab_review import ab_annotations, ab_summary, ab_svg, text_picture


def many(count: int = 40) -> AbResult:
    """A result of many figures, all worse, with notes."""
    worse = result().verdicts[0]
    names = [f"figure {number}" for number in range(count)]
    return replace(
        result(ending="pairs"),
        figures=[replace(WALL, name=name) for name in names],
        verdicts=[replace(worse, figure=name) for name in names],
        pairs=[PAIR] * 17 + [replace(VOID, void=f"reason {number}") for number in range(9)],
    )


def commands(ended: AbResult) -> list[str]:
    """Return the lines for GitHub that are not of the group."""
    group, end, rest = ab_annotations(ended, "github", 0.0).partition("\n::endgroup::\n")
    assert end
    lines = [line for line in group.splitlines() if line.startswith("::")]
    assert [line[:9] for line in lines] == ["::group::"]
    return rest.splitlines()


@dataclass
class _Tags(HTMLParser):
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.append(tag)


def test_the_summary_is_short_and_has_the_intervals_as_text() -> None:
    """The verdict is the first line; the picture has a bar for each figure, and the range that does not matter."""
    lines = ab_summary(result(), "ab.svg").splitlines()
    assert lines[0] == f"**{conclusion(result())}**"
    assert lines[-1] == "[picture of the intervals](ab.svg)"
    begin = lines.index("```") + 1
    assert lines[begin : begin + 4] == [
        "wall time                ··············│·············        ━━━━━━●━━━━━━",
        "CPU time                 ·······━━━━━━━●━━━━━━━━·····",
        "                         -2 %          0                              +5 %",
        "```",
    ]
    assert "| wall time | 1.00 s | 1.04 s | +4.1 % | 3.2 % to 5 % | 17 | – | worse |" in lines
    assert "svg" not in ab_summary(result())


def test_a_summary_of_many_figures_has_at_most_30_lines() -> None:
    """Figures and notes that have no place are counted."""
    text = ab_summary(many(), "ab.svg")
    assert text.count("\n") <= 30
    assert "- 35 more figures in the whole result" in text
    assert text.count("\n| figure ") == 1 + 5
    assert "- 1 more figure in the whole result" in ab_summary(many(6))


@pytest.mark.parametrize("alone", [state("cannot_tell", 0.011, None, None), FigureVerdict(figure="wall time")])
def test_an_open_interval_reaches_the_edge(alone: FigureVerdict) -> None:
    """An end that is not known yet is at the edge of the picture; without pairs there is no bar."""
    (line, scale) = text_picture(replace(result(alone), figures=[WALL], verdicts=[alone]))
    assert line.count("━") == (0 if alone.difference is None else 48)
    assert scale.split() == ["-2", "%", "0", "+2", "%"]


def test_the_largest_differences_have_a_picture() -> None:
    """The ends of the interval are as far apart as a file may have them."""
    largest = replace(result().verdicts[0], low=-1.0, high=1e305, difference=1e305)
    assert "●" in ab_summary(replace(result(), verdicts=[largest, *result().verdicts[1:]]))


def test_the_picture_is_a_file_of_its_own() -> None:
    """The SVG has its colours, its verdict, and nothing from elsewhere."""
    root = ElementTree.fromstring(ab_svg(result()))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.findtext("{*}title") == conclusion(result())
    bars = root.findall("{*}line[@class]")
    assert [bar.get("class") for bar in bars] == ["axis", "error-bar bad-key", "error-bar warn-key"]
    for name in {name for bar in bars for name in (bar.get("class") or "").split()}:
        assert f".{name} {{" in (root.findtext("{*}style") or "")


def test_a_result_without_figures_has_a_summary() -> None:
    """Pairs that were all void have their reason, and no table."""
    text = ab_summary(replace(result(), figures=[], verdicts=[], pairs=[VOID]))
    assert text.startswith("**can't tell: 1 void pair")
    assert "```" not in text


@pytest.mark.parametrize(
    ("verdict", "level"), [("worse", "error"), ("cannot_tell", "warning"), ("same", "notice"), ("better", "notice")]
)
def test_github_gets_workflow_commands(verdict: Verdict, level: str) -> None:
    """The level is that of the verdict, the message its sentence with GitHub's escapes; a group has the text."""
    ended = result(state(verdict, 0.041, 0.032, 0.05))
    message = conclusion(ended).replace("%", "%25")
    assert ab_annotations(ended, "github", 0.0) == (
        f"::group::{message}\n{render_as('ab', ended)}::endgroup::\n::{level} title=telemetry ab::{message}\n"
    )


def test_github_gets_an_error_for_each_figure_that_is_worse() -> None:
    """More than ten would not be shown. If one side fails more requests, that is the only error."""
    lines = commands(many())
    assert len(lines) == 10
    assert "figure 3; 3.2 %25 to 5 %25" in lines[3]
    failed = replace(many(), failures=FailedRequests(before=0.0, after=0.5, verdict="worse"))
    (line,) = commands(failed)
    assert line.startswith("::error title=telemetry ab::./after fails more requests (0 %25 before, 50 %25 after")


@pytest.mark.parametrize(("verdict", "closed"), [("worse", ""), ("same", "[collapsed=true]")])
def test_gitlab_gets_a_section(verdict: Verdict, closed: str) -> None:
    """The title of the section is the verdict, and the text is inside."""
    ended = result(state(verdict, 0.041, 0.032, 0.05))
    assert ab_annotations(ended, "gitlab", 12.4) == (
        f"\x1b[0Ksection_start:12:telemetry_ab{closed}\r\x1b[0K{conclusion(ended)}\n"
        f"{render_as('ab', ended)}\x1b[0Ksection_end:12:telemetry_ab\r\x1b[0K\n"
    )


def test_text_from_outside_is_harmless() -> None:
    """Labels, names and reasons are from outside: they begin no line, no element and no fence."""
    evil = f"{EVIL}\n::error::x\n```"
    hostile = replace(
        result(settings=replace(SETTINGS, labels=(evil, evil))),
        figures=[replace(WALL, name=evil)],
        verdicts=[replace(result().verdicts[0], figure=evil)],
        pairs=[PAIR, replace(VOID, void=evil)],
    )
    summary = ab_summary(hostile)
    assert len(commands(hostile)) == 1
    assert [line for line in summary.splitlines() if "```" in line] == ["```", "```"]
    assert ab_annotations(hostile, "gitlab", 0.0).count("\r") == 2
    tags = _Tags()
    tags.feed(ab_svg(hostile))
    assert set(tags.names) <= {"svg", "style", "title", "line", "path", "text", "circle"}
    ElementTree.fromstring(ab_svg(hostile))
