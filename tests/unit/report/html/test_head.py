"""The top of the page: banners, tiles, the command and the gates."""

from __future__ import annotations

import re

from msgspec.structs import replace
from tests.golden.report.renderings import stored_report
from tests.unit.report.html.samples import load_report

from telemetry.report.content import headlines
from telemetry.report.html.head import head, tiles
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Bounds, Report, SeriesBounds
from telemetry.wire.snapshot import CommandFacts, MetricsSnapshot


def test_gates_that_did_not_pass_are_named() -> None:
    """One banner names gates that did not pass, with the numbers of each outcome. A link leads to the rest."""
    failed = [GateResult(expression=f"p99(a{at}) < 1ms", outcome="fail", reason="2 ms") for at in range(7)]
    passed = GateResult(expression="p50(a) < 1ms", outcome="pass", reason="1 ms")
    text = head(replace(load_report(), gates=[*failed, passed]))
    banner = text.partition('id="gates-verdict">')[2].partition("</p>")[0]
    assert "gates: 7 fail, 1 pass" in banner
    assert banner.count("fail: p99") == 5
    assert '<a href="#gates">2 more</a>' in banner
    assert "p50(a)" not in banner


def test_salvaged_events_stand_in_the_verdict() -> None:
    """The verdict counts salvaged events once and stays that of complete data."""
    shown = load_report().snapshot
    account = replace(shown.accounting, salvaged=1_234)
    text = head(replace(load_report(), snapshot=replace(shown, completeness="complete", accounting=account)))
    banner = text.partition('id="verdict">')[2].partition("</p>")[0]
    assert "<strong>data complete (1,234 events salvaged)</strong> · " in banner
    assert banner.count("salvaged") == 1


def test_a_killed_command_comes_before_the_verdict() -> None:
    """A killed command comes before the verdict, with its signal in the banner and in a tile."""
    command = CommandFacts(argv=["bench"], signal="SIGKILL", exit_code=None)
    report = replace(load_report(), snapshot=replace(load_report().snapshot, command=command))
    text = head(report)
    assert text.index('id="alarm"') < text.index('id="verdict"')
    assert "ended by SIGKILL" in text
    assert re.search(r'bad-tile"><dt><bdi>signal</bdi></dt><dd class="figure">SIGKILL<', tiles(report, []))


def test_tiles_have_bounds_duration_and_exit_code() -> None:
    """Bounds belong to the percentile that a tile shows."""
    report = load_report()
    stat = report.snapshot.series[0]
    own = {"99": Bounds(low=6.1, high=6.9)}
    bounded = replace(report, bounds=[SeriesBounds(name=stat.name, labels=stat.labels, percentiles=own)])
    text = tiles(bounded, headlines(bounded))
    assert re.search(r"<dt><bdi>[^<]*p99</bdi>.*?</dt><dd class=\"figure\">6.52\u00a0ms</dd>", text)
    assert text.count("95\u00a0%: 6.10–6.90\u00a0ms") == 1
    assert "<bdi>duration</bdi>" in text
    assert '<bdi>exit code</bdi></dt><dd class="figure">99</dd><dd class="note">command 0, run 99</dd>' in text
    passed = tiles(replace(bounded, gates=[]), headlines(bounded))
    assert '<bdi>exit code</bdi></dt><dd class="figure">0</dd>' in passed


def test_a_run_without_values_has_its_duration() -> None:
    """The tiles of a run without values have its duration and no other figure."""
    report = Report(snapshot=MetricsSnapshot(run_id="r", name="n", elapsed_s=2.0), source="status")
    assert re.findall(r"<dt><bdi>([^<]*)", tiles(report, headlines(report))) == ["duration"]


def test_the_command_is_text_in_one_place() -> None:
    """Long ones are cut by the page, not by us."""
    argv = ["python", "-c", "print('<b>')" * 100]
    report = stored_report()
    text = head(replace(report, snapshot=replace(report.snapshot, command=CommandFacts(argv=argv, exit_code=0))))
    assert text.count('class="command"') == 1
    assert "<b>" not in text


def test_no_unit_begins_a_line() -> None:
    """A number and its unit stay together in a narrow tile."""
    report = load_report()
    text = tiles(report, headlines(report))
    assert re.search(r'<dd class="figure">6.52\u00a0ms</dd>', text)
    assert re.search(r'<dd class="note">998,000 in 2\u00a0min 5\u00a0s of the run</dd>', text)
