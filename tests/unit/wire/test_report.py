"""Report: the result as a caller sees it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from telemetry.wire.report import SOURCE_WORDS, Bounds, Report, SeriesBounds
from telemetry.wire.snapshot import Accounting, CounterStat, GaugeStat, MetricsSnapshot, ProducerStat, SeriesStat


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
    one = report(completeness="complete", accounting=Accounting(emitted=1, received=1, applied=1))
    assert str(one) == "complete: demo, 1 of 1 event applied, 0 lost"
    one = report(completeness="interrupted", accounting=Accounting(emitted=1, received=1, applied=1))
    assert str(one).startswith("interrupted: demo, 1 event applied, events ")


ENDED = ProducerStat(producer="a", status="ended", completeness="complete")
NEVER_ENDED = ProducerStat(producer="b", completeness="incomplete")
STILL_RECORDING = ProducerStat(producer="s", completeness="incomplete", status="ended", unfinished=True)
ALL = Accounting(emitted=250_886, received=250_886, applied=250_886)
SESSION = CounterStat(name="feed.sessions", value=1)
END = CounterStat(name="feed.ended", value=1)
BY_BENCHMARK = {
    "state": "INTERRUPTED",
    "completeness": "interrupted",
    "reason": "the benchmark was interrupted; the command exited with code 1",
    "accounting": ALL,
}
AT_NS = 1_772_366_400_000_000_000


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"state": "INTERRUPTED", "completeness": "interrupted", "accounting": ALL, "producers": [NEVER_ENDED]},
            "interrupted: demo, 250,886 events applied, events after 12:00:00 UTC are unknown",
        ),
        (
            {"state": "INTERRUPTED", "completeness": "interrupted"},
            "interrupted: demo, 990 events applied, 10 lost, events after 12:00:00 UTC are unknown",
        ),
        (
            {"completeness": "incomplete", "accounting": ALL, "producers": [ENDED, NEVER_ENDED]},
            "incomplete: demo, 250,886 events applied, 1 of 2 producers never ended",
        ),
        (
            {"completeness": "incomplete", "producers": [NEVER_ENDED]},
            "incomplete: demo, 990 events applied, 10 lost, 1 of 1 producer never ended",
        ),
        (
            {"completeness": "incomplete", "accounting": ALL, "producers": [ENDED, STILL_RECORDING]},
            ("incomplete: demo, 250,886 events applied, 1 of 2 producers was still recording when the run ended"),
        ),
        (
            {
                "completeness": "incomplete",
                "accounting": ALL,
                "producers": [NEVER_ENDED, STILL_RECORDING, STILL_RECORDING],
            },
            "incomplete: demo, 250,886 events applied, 1 of 3 producers never ended, "
            "2 were still recording when the run ended",
        ),
        (
            {"completeness": "incomplete", "state": "LIVE", "accounting": ALL},
            "incomplete: demo, 250,886 events applied, events after 12:00:00 UTC are unknown",
        ),
        (
            {"completeness": "incomplete", "state": "LIVE", "accounting": ALL, "time_ns": 0},
            "incomplete: demo, 250,886 events applied, events after that are unknown",
        ),
        (
            {"completeness": "incomplete", "accounting": ALL, "producers": [ENDED], "counters": [SESSION]},
            "incomplete: demo, 250,886 events applied, 1 of 1 feed session sent no end message",
        ),
        (
            {**BY_BENCHMARK, "producers": [ENDED], "counters": [SESSION, END]},
            "interrupted: demo, 250,886 of 250,886 events applied, 0 lost",
        ),
        (
            {**BY_BENCHMARK, "producers": [NEVER_ENDED], "counters": [SESSION]},
            "interrupted: demo, 250,886 events applied, 1 of 1 producer never ended, "
            "1 of 1 feed session sent no end message",
        ),
        (
            {"completeness": "lossy", "producers": [ENDED]},
            "lossy: demo, 990 of 1,000 events applied, 10 lost",
        ),
    ],
)
def test_a_total_that_nobody_knows_is_not_said(facts: dict[str, object], said: str) -> None:
    """Producers that never ended, and those of a run that was cut off, recorded more than anybody heard of."""
    assert report(**{"time_ns": AT_NS, **facts}).headline() == said


@pytest.mark.parametrize("time_ns", [-1, 0, 1 << 63, 1 << 90])
def test_a_time_that_is_none(time_ns: int) -> None:
    """The headline is still one line if the time in a file is none."""
    assert "events after that are unknown" in report(completeness="interrupted", time_ns=time_ns).headline()


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
    """A run that goes on is not called incomplete, as nobody can tell yet.

    The remains of a run that will never say more are called that.
    """
    found = replace(report(state=state, completeness="incomplete"), source=source)
    assert found.verdict == verdict
    assert found.headline().startswith(f"{verdict}: demo, 990 ")


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


def test_percentiles_that_rest_on_too_few_values() -> None:
    """Both bounds make one trusted; the maximum is a fact, and where nobody looked nothing is known."""
    few = Bounds(low=1.0)
    percentiles = {"50": Bounds(low=1.0, high=2.0), "99": few, "100": few}
    bounds = SeriesBounds(name="s", labels={"a": "b"}, percentiles=percentiles)
    found = replace(report(), bounds=[bounds])
    stat, other = SeriesStat(name="s", labels={"a": "b"}), SeriesStat(name="s")
    assert (found.bounds_of(stat), found.bounds_of(other)) == (bounds, None)
    assert [found.trusted(stat, key) for key in ("50", "99", "100", "unknown")] == [True, False, True, True]
    assert found.trusted(other, "99")
    assert replace(found, bounds=[]).trusted(stat, "99")


def test_events_of_collectors_alone_are_told_apart() -> None:
    """A run whose command recorded nothing does not have "0 of 0 events"."""
    account = {"emitted": 3, "received": 3, "applied": 3}
    collectors = ProducerStat(producer="telemetry.collectors.1", completeness="complete", **account)
    found = report(completeness="complete", producers=[collectors], accounting=Accounting())
    assert found.headline() == "complete: demo, no events of the command, 3 events of collectors, 0 lost"
