"""Report: the result as a caller sees it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from telemetry.wire.report import SOURCE_WORDS, Report
from telemetry.wire.snapshot import Accounting, CounterStat, GaugeStat, MetricsSnapshot, SeriesStat


def report(**changes: object) -> Report:
    facts: dict[str, object] = {
        "run_id": "r",
        "name": "demo",
        "state": "COMPLETE",
        "completeness": "lossy",
        "directory": "runs/demo",
        "accounting": Accounting(emitted=1_000, applied=990, dropped={"negative": 4}, missing=6),
        "counters": [CounterStat(name="n", value=1), CounterStat(name="n", labels={"a": "b"}, value=2)],
        "gauges": [GaugeStat(name="g", value=3)],
        "series": [SeriesStat(name="s", count=4)],
    }
    return Report(snapshot=MetricsSnapshot(**(facts | changes)), source="pubsub")  # type: ignore[arg-type]


def test_the_headline_names_completeness_and_loss() -> None:
    """The first line says whether the numbers can be trusted."""
    assert str(report()) == "lossy: demo, 990 of 1,000 events applied, 10 lost"


@pytest.mark.parametrize(
    ("state", "source", "verdict"),
    [
        ("COMPLETE", "file", "incomplete"),
        ("LIVE", "status", "live"),
        ("DRAINING", "status", "draining"),
        ("INITIALIZE", "status", "waiting"),
        ("COMPLETE", "status", "incomplete"),
        ("LIVE", "last_live", "incomplete"),
    ],
)
def test_a_run_that_goes_on_is_not_called_incomplete(state: str, source: str, verdict: str) -> None:
    """Nobody can tell yet; but what is left of a run that will never say more is."""
    found = replace(report(state=state, completeness="incomplete"), source=source)
    assert found.verdict == verdict
    assert found.headline().startswith(f"{verdict}: demo, 990 of 1,000")


def test_instruments_are_found_by_name_and_exact_labels() -> None:
    """Labels tell instruments of one name apart."""
    found = report()
    assert found.counter("n").value == 1
    assert found.counter("n", a="b").value == 2
    assert found.gauge("g").value == 3
    assert found.series("s").count == 4


def test_an_unknown_instrument_names_those_that_exist() -> None:
    """A typo is answered with the choices."""
    with pytest.raises(KeyError, match="not among"):
        report().series("t")


@pytest.mark.parametrize(("state", "final"), [("LIVE", False), ("DRAINING", False), ("INTERRUPTED", True)])
def test_only_a_terminal_state_is_final(state: str, final: bool) -> None:
    """A result along the way says so."""
    found = report(state=state)
    assert found.final is final
    assert found.state == state


def test_the_report_passes_facts_of_its_snapshot_on() -> None:
    """Directory and completeness need no detour."""
    assert report().directory == "runs/demo"
    assert report().completeness == "lossy"
    assert set(SOURCE_WORDS) == {"pubsub", "file", "status", "last_live", "journal"}
