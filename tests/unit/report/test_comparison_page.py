"""A comparison as a page."""

from __future__ import annotations

import json
import re

from msgspec.structs import replace

from telemetry.judge.compare import ChangedSetting, Comparison, Curve, MetricResult, SideRun
from telemetry.report.comparison import comparison_text
from telemetry.report.comparison_page import comparison_html

RUNS = [SideRun(run_id=f"r{number}", name="<b>main</b>", completeness="complete") for number in range(2)]
WORSE = MetricResult(
    of="series", statistic="p99", name="latency", unit="ms", better="lower", verdict="worse",
    before=10.0, after=11.0, difference=0.1, low=0.05, high=0.15, p_value=0.001, p_adjusted=0.01, method="runs",
)  # fmt: skip
CURVE = Curve(name="latency", unit="ms", before=[(0.0, 1.0), (1.0, 2.0)], after=[(0.0, 1.0), (1.0, 3.0)])
COMPARISON = Comparison(before=RUNS, after=RUNS, metrics=[WORSE], curves=[CURVE], notes=["a <note>"])


def test_the_verdict_is_first_and_every_figure_is_there() -> None:
    """The verdict precedes the figures, and each figure has its numbers and its own verdict.

    Figures without a difference are shown, too.
    """
    calm = replace(WORSE, statistic="p50", verdict="not_shown", reason="significant alone")
    text = comparison_html(replace(COMPARISON, metrics=[WORSE, calm]))
    assert '<p class="banner bad" id="verdict">' in text
    assert "<strong>worse</strong> · 1 worse of 2 figures, 2 runs against 2" in text
    for cell in ("10.0 ms", "11.0 ms", "+10 %", "+5 % … +15 %"):
        assert text.count(f"<td>{cell}</td>") == 2, cell
    figures = text.partition('<section id="figures">')[2].partition("</section>")[0]
    assert re.findall(r'<th scope="row">(.*?)</th>', figures) == ["latency p99", "latency p50"]
    assert '<p class="soft">significant alone: latency p50</p>' in figures
    assert '<span class="badge calm">≈&nbsp;no difference shown</span>' in text


def test_what_was_not_finite_is_below_the_verdict() -> None:
    """A note on values that were not finite stands right below the verdict, in the page and in text."""
    line = "after: loss is NaN or infinite, first at step 100"
    text = comparison_html(replace(COMPARISON, concerns=[line]))
    assert f'<p class="banner warn" id="concerns"><span aria-hidden="true">!</span> {line}</p>' in text
    assert text.index('id="verdict"') < text.index('id="concerns"') < text.index("Largest differences")
    assert comparison_text(replace(COMPARISON, concerns=[line])).splitlines()[1] == line


def test_the_largest_differences_are_tiles_below_the_verdict() -> None:
    """The tiles of the largest differences show both values, and the changed settings follow them.

    A tile has a colour only if the figure is better or worse.
    """
    changed = replace(WORSE, name="ttft", verdict="changed", before=62.0, after=988.0, difference=14.9)
    text = comparison_html(
        replace(
            COMPARISON,
            after=[replace(run, name="branch") for run in RUNS],
            metrics=[WORSE, changed],
            settings=[ChangedSetting(name="<lr>", before=["1.0"], after=["1.6"])],
        )
    )
    assert "<h1>&lt;b&gt;main&lt;/b&gt; against branch</h1>" in text
    tiles = text.partition("Largest differences")[2].partition("</dl>")[0]
    assert re.findall(r'<div class="(.*?)"><dt><bdi>(.*?)</bdi>', tiles) == [
        ("tile", "ttft p99"),
        ("tile bad-tile", "latency p99"),
    ]
    assert '<dd class="figure">+1,490 %</dd><dd class="note">62.0 ms → 988 ms</dd>' in tiles
    assert (
        text.index('id="verdict"') < text.index("Largest differences") < text.index("differs: &lt;lr&gt; 1.0 → 1.6")
    )


def test_both_sides_are_in_one_chart() -> None:
    """The chart has both sides as data of the page, under names that say what each line is."""
    text = comparison_html(COMPARISON)
    (block,) = re.findall(r'<script type="application/json">(.*?)</script>', text)
    data = json.loads(block)
    assert data["unit"] == "ms"
    assert [line["name"] for line in data["lines"]] == ["before, median of 2 runs", "after, median of 2 runs"]
    assert data["lines"][1]["points"] == [[0.0, 1.0], [1.0, 3.0]]


def test_series_that_differ_are_drawn_first() -> None:
    """The charts begin with the series that differ. Series beyond the first 100 are left to the JSON form."""
    others = [replace(CURVE, name=f"a{number}") for number in range(120)]
    text = comparison_html(replace(COMPARISON, curves=[*others, CURVE]))
    drawn = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    assert (drawn[0], len(drawn)) == ("latency", 100)
    assert "21 more series are in the JSON form" in text


def test_text_from_outside_is_text() -> None:
    """Names of runs, notes and reasons can't become elements."""
    text = comparison_html(COMPARISON)
    assert "<b>main" not in text
    assert "&lt;b&gt;main" in text
    assert "a &lt;note&gt;" in text
    assert "http" not in re.sub(r"http-equiv|http://www.w3.org", "", text)


def test_how_runs_ended_is_in_their_table() -> None:
    """Signals and exit codes, where there is something to say."""
    odd = [replace(RUNS[0], signal="SIGKILL", completeness="interrupted"), replace(RUNS[1], exit_code=3)]
    text = comparison_html(replace(COMPARISON, after=odd))
    assert "interrupted, ended by SIGKILL" in text
    assert "complete, exit code 3" in text
