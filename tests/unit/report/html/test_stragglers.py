"""Slow ranks on a page: the sentence and the heat map."""

from __future__ import annotations

import re

from msgspec.structs import replace
from tests.unit.report.test_stragglers import report

from telemetry.report.html import render_html
from telemetry.report.html.stragglers import stragglers_section
from telemetry.wire.report import LagFold, LagMap

EVIL = "</script><img src=x onerror=alert(1)>\"'&"


def test_the_section_has_the_sentence_and_the_map() -> None:
    """A link to it says how many are slow."""
    text = render_html(report())
    assert '<a href="#stragglers" class="warn">Stragglers 1</a>' in text
    section = text[text.index('<section id="stragglers">') :]
    assert "rank 3 costs " in section
    assert len(re.findall(r'<text [^>]*class="heat-row">rank \d+</text>', section)) == 12
    titles = re.findall(r"<title>(rank \d+), from [\d,]+: [\d.]+ %</title>", section)
    assert titles.count("rank 3") == len(report().stragglers[0].map.steps)
    assert titles.count("rank 3") > 3 * max(titles.count(f"rank {rank}") for rank in range(12) if rank != 3)


def test_an_absent_rank_is_grey() -> None:
    """An absent rank is grey and does not look like a fast rank."""
    one = report().stragglers[0]
    lags = LagMap(ranks=["rank 0"], steps=[0, 10], last_step=19, lags=[[None, 0.2]])
    _, text = stragglers_section(replace(report(), stragglers=[replace(one, map=lags)]))
    assert text.count('class="heat-absent"') == 1
    assert text.count('class="heat-late"') == 1


def test_many_rows_are_low_and_every_third_has_its_name() -> None:
    """Many rows are low and every third has its name, so that the map fits on a page."""
    one = report().stragglers[0]
    lags = LagMap(ranks=[f"rank {rank}" for rank in range(64)], steps=[0], last_step=9, lags=[[0.1]] * 64)
    _, text = stragglers_section(replace(report(), stragglers=[replace(one, map=lags)]))
    assert len(re.findall(r'class="heat-row">rank', text)) == 22
    assert 'viewBox="0 0 1000 662.0"' in text


def test_names_from_outside_are_text() -> None:
    """Names of ranks and axes are escaped."""
    one = report().stragglers[0]
    lags = replace(one.map, ranks=[EVIL] * 12)
    _, text = stragglers_section(replace(report(), stragglers=[replace(one, axis=EVIL, map=lags)]))
    assert "<img" not in text
    assert "&lt;img" in text


def test_the_map_may_be_folded_by_group() -> None:
    """A choice shows the map by rank or by group. Without groups there is no choice."""
    one = report().stragglers[0]
    fold = LagFold(dimension=EVIL, ranks=["n0", "n1"], lags=[[0.1] * len(one.map.steps)] * 2)
    folded = replace(one, map=replace(one.map, folds=[fold]))
    _, text = stragglers_section(replace(report(), stragglers=[folded, folded]))
    assert re.findall(r'name="(fold-\d)"', text) == ["fold-0"] * 2 + ["fold-1"] * 2
    assert text.count(" checked") == 2
    assert re.findall(r'class="heat-row">(n\d)<', text) == ["n0", "n1"] * 2
    assert "<img" not in text
    assert 'type="radio"' not in stragglers_section(report())[1]
