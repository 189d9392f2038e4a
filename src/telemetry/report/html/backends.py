"""Backends on a page, with highlighted states."""

from __future__ import annotations

from telemetry.report.backends import backends, state
from telemetry.report.html.sections import table
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BACKEND_ENDED


def backends_body(report: Report) -> str:
    """Return the table; empty without backends."""
    looks = [state(stat, report)[1] for stat in report.snapshot.backends]
    whole = backends(report).table
    return table(whole, badges={1: looks}) if whole is not None else ""


def backends_link(report: Report) -> tuple[str, str]:
    """Return the text beside the link to backends, and its style."""
    missing = sum(stat.state in ("undelivered", "failed") for stat in report.snapshot.backends)
    if missing:
        return f" {missing} not delivered", "bad"
    unsure = any(stat.dropped or stat.state not in BACKEND_ENDED for stat in report.snapshot.backends)
    return ("", "warn") if unsure and report.final else ("", "")
