"""What a `Report` does for its user: files, notebooks, one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.golden.report.renderings import stored_report

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.report import Format, render
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
def test_the_suffix_says_the_format(tmp_path: Path, name: str, form: Format) -> None:
    """The file has what `render` returns."""
    report = stored_report()
    report.save(tmp_path / name)
    assert (tmp_path / name).read_text() == render(report, form)


def test_a_format_can_be_named(tmp_path: Path) -> None:
    """Whatever the file is called."""
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


def test_its_repr_is_one_line() -> None:
    """A console is not flooded with thousands of figures."""
    report: Report = stored_report()
    assert repr(report) == f"<Report {report.headline()}>"
