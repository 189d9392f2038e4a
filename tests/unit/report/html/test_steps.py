"""Steps on a page."""

from __future__ import annotations

import re

from tests.golden.report.renderings import steps_report, stored_report
from tests.unit.report.html.samples import training_report

from telemetry.report.html import render_html
from telemetry.report.html.steps import steps_section
from telemetry.wire.report import Report
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot

EVIL = "</script><img src=x onerror=alert(1)>\"'&"


def test_steps_are_one_section_with_a_title_for_each_axis() -> None:
    """Steps are one section before the series, with a title for each axis and a link.

    A run without steps has neither.
    """
    text = render_html(steps_report())
    assert text.index('<section id="steps">') < text.index('<section id="series">')
    assert '<a href="#steps">Steps</a>' in text
    assert re.findall(r"<h3>([^<]*)</h3>", text) == ["train", "rollout", "eval"]
    assert 'id="steps"' not in render_html(stored_report())


def test_a_count_of_epochs_is_no_chart() -> None:
    """The table of values has it."""
    text = steps_section(training_report(["loss", "epoch"]))[1]
    chart, _, table = text.partition("<details")
    assert '"name":"loss"' in chart
    assert "epoch" not in chart
    assert "epoch" in table


def test_names_from_outside_are_text() -> None:
    """Names of axes and values are escaped."""
    axes = [AxisStat(name=EVIL, closed=1, values={EVIL: 1.0})]
    _, text = steps_section(Report(snapshot=MetricsSnapshot(run_id="r", name="n", axes=axes), source="file"))
    assert "<img" not in text
    assert "&lt;img" in text
