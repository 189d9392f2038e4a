"""Tests of what a report says of backends."""

from __future__ import annotations

from msgspec.structs import replace
from tests.golden.report.renderings import steps_report, stored_report

from telemetry.report.backends import backends, line
from telemetry.report.table import Section
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BackendStat, MetricsSnapshot


def report(*stats: BackendStat, live: bool = False) -> Report:
    snapshot = MetricsSnapshot(
        run_id="r",
        name="n",
        state="LIVE" if live else "COMPLETE",
        time_ns=10**18,
        directory="/runs/r",
        backends=list(stats),
    )
    return Report(snapshot=snapshot, source="status" if live else "file")


def states(section: Section) -> list[str]:
    assert section.table is not None
    return [row[1] for row in section.table.rows]


def test_a_run_without_backends_says_nothing_of_them() -> None:
    """A run without backends has no section on them, not even an empty one."""
    assert not backends(stored_report())
    assert line(stored_report()) == ""


def test_what_became_of_each() -> None:
    """A backend that has not ended is not well if the run is over. It is up to date if the run goes on."""
    stats = [BackendStat(name="a", state="done"), BackendStat(name="b", state="idle")]
    assert states(backends(report(*stats))) == ["done", "idle, not ended"]
    assert states(backends(report(*stats, live=True))) == ["done", "up to date"]


def test_numbers() -> None:
    """Reasons together; the notes have them one by one."""
    stat = BackendStat(
        name="a",
        state="done",
        written=12_300,
        dropped={"b": 2, "a": 1_000},
        no_place={"span": 9, "reading": 1, "params": 2},
        repeated=4,
        retried=5,
        restarts=6,
        last_error="was away",
        place="/there\x1b",
    )
    section = backends(report(stat))
    assert section.table is not None
    assert section.table.rows == [["a", "done", "12,300", "0", "1,002", "12", "4", "5", "6"]]
    assert section.notes == [
        "a, dropped: 1,000 a, 2 b",
        "a does not support: 2 sets of parameters, 1 reading, 9 spans",
        "a: 4 items may appear twice, because its writer was restarted",
        "a, last error: was away",
        r"a: see /there\x1b",
    ]


def test_an_address_that_ends_with_its_writer_is_of_the_past() -> None:
    """A page for scrapers is there while its writer runs, and no longer."""
    stat = BackendStat(name="prom", kind="prometheus", state="closing", place="http://127.0.0.1:9599/metrics")
    assert backends(report(stat)).notes == ["prom: see http://127.0.0.1:9599/metrics"]
    ended = backends(report(replace(stat, state="done"))).notes
    assert ended == ["prom: was at http://127.0.0.1:9599/metrics until its writer ended"]


def test_the_command_for_the_rest_comes_first_and_once() -> None:
    """The command for the rest comes once, in a line of its own."""
    assert backends(steps_report()).notes[:3] == [
        "wandb: 675 records are not delivered (connection refused: https://api.wandb.ai)",
        "mlflow: its writer could not start (mlflow is not installed: pip install 'telemetryd[mlflow]')",
        "undelivered data is kept in the run directory; deliver it with\ntelemetry export --resume "
        "runs/spirals-20231114T221320Z-a1b2",
    ]


def test_what_resuming_does_not_mend_is_not_to_be_resumed() -> None:
    """A writer that never was has no folder, and one that could not begin will not before something is mended."""
    assert backends(report(BackendStat(name="a", state="failed"))).notes == ["a: its writer could not start"]
    assert backends(report(BackendStat(name="a", state="failed", time_ns=1))).notes[:2] == [
        "a: its writer could not start",
        "undelivered data is kept in the run directory; after fixing the cause, deliver it with\n"
        "telemetry export --resume /runs/r",
    ]


def test_all_in_one_line() -> None:
    """All backends fit in one line, as in the cockpit."""
    stats = [
        BackendStat(name="a", state="done", written=7),
        BackendStat(name="b", state="failed", last_error="no key"),
    ]
    assert line(report(*stats)) == "a ✓ 7 · b failed: no key"
