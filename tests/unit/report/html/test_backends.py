"""Backends on a page."""

from __future__ import annotations

import re

import pytest
from tests.golden.report.renderings import steps_report, stored_report

from telemetry.report.html import render_html
from telemetry.report.html.document import backends_body, backends_link
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BackendStat, MetricsSnapshot

EVIL = "</script><img src=x onerror=alert(1)>\"'&"


def report(*stats: BackendStat) -> Report:
    return Report(
        snapshot=MetricsSnapshot(run_id="r", name="n", state="COMPLETE", backends=list(stats)), source="file"
    )


def test_states_stand_out() -> None:
    """States of backends stand out by color and in words. The link says how many are not delivered."""
    text = render_html(steps_report())
    assert re.findall(r'<span class="badge (\w+)">(\w+)</span>', text) == [
        ("good", "done"),
        ("bad", "undelivered"),
        ("good", "done"),
        ("bad", "failed"),
    ]
    assert '<a href="#backends" class="bad">Backends 2 not delivered</a>' in text
    assert "telemetry export --resume runs/" in text
    assert 'id="backends"' not in render_html(stored_report())


@pytest.mark.parametrize(
    ("stat", "link"),
    [
        (BackendStat(name="a", state="done"), ("", "")),
        (BackendStat(name="a", state="done", dropped={"refused": 1}), ("", "warn")),
        (BackendStat(name="a", state="writing"), ("", "warn")),
        (BackendStat(name="a", state="failed"), (" 1 not delivered", "bad")),
    ],
)
def test_the_link_looks_like_the_worst(stat: BackendStat, link: tuple[str, str]) -> None:
    """The link looks like the worst backend and has no text beside it if all are well."""
    assert backends_link(report(stat)) == link


def test_text_from_outside_is_text() -> None:
    """Names, errors and places."""
    stat = BackendStat(name=EVIL[:64], state="undelivered", last_error=EVIL, place=EVIL)
    page = render_html(report(stat))
    assert "<img" not in backends_body(report(stat)) + page
    assert "&lt;img" in page
