"""One recorded report in every form. After a wanted change, `python -m tests.golden.report.renderings` stores them.

`snapshot.json` and `recorded.json` are what is rendered, and `requests.json`, a run of requests, and `steps.json`,
one of steps, with backends; all other files here are made of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from telemetry import render
from telemetry.history import RecordedRun
from telemetry.report.html.document import SCRIPTS as REPORT_SCRIPTS
from telemetry.report.html.page import SCRIPTS as PAGE_SCRIPTS
from telemetry.report.html.page import asset
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot

HERE: Final = Path(__file__).parent
_ASSETS: Final = ("page.css", *PAGE_SCRIPTS, *REPORT_SCRIPTS)


def stored_report() -> Report:
    """Return a report with everything that a report can have.

    It has a time range, bounds, figures over time, findings, gates and sources.
    """
    document = msgspec.json.decode((HERE / "recorded.json").read_bytes())
    document["snapshot"] = msgspec.json.decode((HERE / "snapshot.json").read_bytes())
    return msgspec.convert(document, Report)


def requests_report() -> Report:
    """Requests of two kinds, one of them with a tracking window, failures and a stall."""
    return _alone("requests.json")


def steps_report() -> Report:
    """Steps of three axes, with timeouts and corrections; of four backends one is undelivered and one failed."""
    return _alone("steps.json")


def _alone(name: str) -> Report:
    snapshot = msgspec.json.decode((HERE / name).read_bytes(), type=MetricsSnapshot)
    return RecordedRun(Report(snapshot=snapshot, source="file"), None).report()


def without_assets(page: str) -> str:
    """Style and scripts by their names alone, so that what is stored changes with the report."""
    for name in _ASSETS:
        page = page.replace(asset(name), f" {name} ")
    return re.sub(r"'sha256-[^']+'", "'sha256-…'", page)


RENDERINGS: Final[dict[str, Callable[[Report], str]]] = {
    "text_80.txt": lambda report: render(report, width=80),
    "text_140.txt": lambda report: render(report, width=140),
    "text_240.txt": lambda report: render(report, width=240),
    "full_120.txt": lambda report: render(report, width=120, full=True),
    "steps_140.txt": lambda report: render(report, width=140, steps=True),
    "report.md": lambda report: render(report, "md"),
    "full.md": lambda report: render(report, "md", full=True),
    "report.json": lambda report: render(report, "json"),
    "report.csv": lambda report: render(report, "csv"),
    "report.html": lambda report: without_assets(render(report, "html")),
    "report.hgrm": lambda report: render(report, "hgrm"),
    "report.xml": lambda report: render(report, "junit"),
}

OF_REQUESTS: Final[dict[str, Callable[[Report], str]]] = {
    "requests_80.txt": lambda report: render(report, width=80),
    "requests_140.txt": lambda report: render(report, width=140),
    "requests_full_120.txt": lambda report: render(report, width=120, full=True),
    "requests.md": lambda report: render(report, "md"),
    "requests_report.json": lambda report: render(report, "json"),
    "requests.html": lambda report: without_assets(render(report, "html")),
}

OF_STEPS: Final[dict[str, Callable[[Report], str]]] = {
    "steps_80.txt": lambda report: render(report, width=80),
    "steps_120.txt": lambda report: render(report, width=120),
    "steps.md": lambda report: render(report, "md"),
    "steps.csv": lambda report: render(report, "csv"),
    "steps_report.json": lambda report: render(report, "json"),
    "steps.html": lambda report: without_assets(render(report, "html")),
}

if __name__ == "__main__":
    for name, rendering in RENDERINGS.items():
        (HERE / name).write_text(rendering(stored_report()))
    for name, rendering in OF_REQUESTS.items():
        (HERE / name).write_text(rendering(requests_report()))
    for name, rendering in OF_STEPS.items():
        (HERE / name).write_text(rendering(steps_report()))
