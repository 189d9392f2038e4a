"""Tests of a `Report` for its user: files, notebooks, one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.golden.report.renderings import stored_report
from tests.unit.report.html.samples import training_report

from telemetry.errors import ProtocolError, RunDirectoryError, UsageError
from telemetry.report import render
from telemetry.wire.codec import snapshot_to_json
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("r.txt", "text"),
        ("r.json", "json"),
        ("r.md", "md"),
        ("r.csv", "csv"),
        ("r.HTML", "html"),
        ("r.xml", "junit"),
    ],
)
def test_the_suffix_says_the_format(tmp_path: Path, name: str, form: str) -> None:
    """The file has what `render` returns."""
    report = stored_report()
    report.save(tmp_path / name)
    assert (tmp_path / name).read_text() == render(report, form)


def test_a_snapshot_makes_a_report() -> None:
    """`from_snapshot` makes a report with findings and bounds but no files, also from JSON.

    The run has ended or goes on.
    """
    snapshot = stored_report().snapshot
    made = Report.from_snapshot(snapshot)
    assert (made.snapshot, made.source, made.final) == (snapshot, "pubsub", True)
    assert made.headline() == stored_report().headline()
    assert made.bounds
    assert Report.from_snapshot(snapshot=json.loads(snapshot_to_json(snapshot))) == made
    live = Report.from_snapshot(replace(snapshot, state="LIVE", completeness="incomplete"))
    assert (live.source, live.verdict, live.final) == ("status", "live", False)


@pytest.mark.parametrize("document", [{}, {"run_id": 7, "name": "n"}, {"run_id": object()}])
def test_what_is_no_snapshot_makes_no_report(document: dict[str, object]) -> None:
    """The error says so."""
    with pytest.raises(ProtocolError, match="not a snapshot"):
        Report.from_snapshot(document)


def test_a_format_can_be_named(tmp_path: Path) -> None:
    """A report is saved in the named format, whatever the file is called."""
    stored_report().save(str(tmp_path / "result"), "json")
    assert json.loads((tmp_path / "result").read_text())["name"] == "load-test"


def test_what_cannot_be_saved_says_why(tmp_path: Path) -> None:
    """A suffix, a format, a folder; nothing is left behind."""
    report = stored_report()
    with pytest.raises(UsageError, match=r"\.docx of .* does not select a format"):
        report.save(tmp_path / "r.docx")
    with pytest.raises(UsageError, match="unknown report format 'pdf'"):
        report.save(tmp_path / "r", "pdf")
    with pytest.raises(RunDirectoryError, match=r"can't write .*: No such file or directory"):
        report.save(tmp_path / "gone" / "r.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_shows_headline_and_figures() -> None:
    """Text of the run is escaped."""
    report = stored_report()
    odd = replace(report, snapshot=replace(report.snapshot, name="<script>"))
    html = odd._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "latency" in html
    assert "p99" in html


def test_a_notebook_shows_failed_gates_in_red() -> None:
    """The outcomes, and each gate that did not pass, the worst first; passed gates alone are green."""
    gates = [
        GateResult(expression="p50(x) < 1", outcome="pass", reason="0.5"),
        GateResult(expression="p90(x) < 1", outcome="inconclusive", reason="too few"),
        GateResult(expression="p99(x) < 1", outcome="fail", reason="2 is not < 1"),
    ]
    html = replace(stored_report(), gates=gates)._repr_html_()
    lines = re.findall(r'<p style="color: (.*?); font-weight: 600">(.*?)</p>', html)
    assert lines[:3] == [
        ("#d0362b", "gates: 1 fail, 1 inconclusive, 1 pass"),
        ("#d0362b", "fail: p99(x) &lt; 1 · 2 is not &lt; 1"),
        ("#a86400", "inconclusive: p90(x) &lt; 1 · too few"),
    ]
    good = replace(stored_report(), gates=gates[:1])._repr_html_()
    assert re.findall(r'<p style="color: ([^;]*); font-weight: 600">gates', good) == ["#1e8a4c"]


def test_a_notebook_has_a_picture() -> None:
    """A notebook shows a picture of the loss above the tables."""
    html = training_report()._repr_html_()
    assert html.index("<svg") < html.index("<table")
    assert 'aria-label="train/loss"' in html


def test_tables_of_a_notebook_need_no_style_sheet() -> None:
    """Numbers are on the right, and figures over time are lines, not characters."""
    html = training_report()._repr_html_()
    cells = re.findall(r'<td style="text-align: (\w+)[^>]*>(.*?)</td>', html)
    assert {side for side, text in cells if re.fullmatch(r"[\d.,]+", text)} == {"right"}
    assert any(text.startswith("<svg") and "<polyline" in text for _, text in cells)
    assert not [text for _, text in cells if re.fullmatch("[▁▂▃▄▅▆▇█ ]+", text)]


def test_its_repr_is_one_line() -> None:
    """A console is not flooded with thousands of figures."""
    report: Report = stored_report()
    assert repr(report) == f"<Report {report.headline()}>"
