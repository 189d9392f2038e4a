"""Tests that a run made from results has their times, in order, whenever it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.compat.importers.results import UNKNOWN, Results
from telemetry.config import load
from telemetry.daemon.imported_run import import_results
from telemetry.errors import InstrumentError, UsageError
from telemetry.history.request_log import read
from telemetry.store.history import HistoryReader
from telemetry.store.journal import JournalReader
from telemetry.store.run_directory import RunDirectory, list_runs
from telemetry.wire.imported import ImportedFile
from telemetry.wire.snapshot import MetricsSnapshot

S = 10**9
MS = 10**6
STARTED_NS = 1_700_000_000 * S


def made(results: Results, root: Path, written_ns: int = 0) -> MetricsSnapshot:
    return import_results(
        results,
        ImportedFile(tool="acme", file="/data/acme.json", unknown=results.unknown, stated=results.stated),
        load({"run.dir": str(root)}).config,
        name="load",
        run_id="r1",
        written_ns=written_ns,
        argv=["telemetry", "import"],
        recompute=lambda snapshot, directory: [],
    ).snapshot


def counted(snapshot: MetricsSnapshot) -> dict[str, float]:
    return {f"{stat.name}{''.join(stat.labels.values())}": stat.value for stat in snapshot.counters if stat.value}


def test_a_run_has_the_times_of_the_file(tmp_path: Path) -> None:
    """Start, length, seconds of the history and times of requests are those of the file."""
    results = Results()
    requests = results.requests_of("http")
    for number in range(60):
        start_ns = STARTED_NS + number * S // 10
        requests.add(start_ns, start_ns + 30 * MS, failure="status 500" if number == 7 else "")
    snapshot = made(results, tmp_path)
    assert snapshot.started_ns == STARTED_NS
    assert snapshot.elapsed_s == pytest.approx(5.93)
    assert (snapshot.state, snapshot.completeness, snapshot.exact) == ("COMPLETE", "complete", True)
    assert snapshot.reason == "imported from acme, acme.json"
    assert counted(snapshot) == {"http.issued": 60, "http.completed": 59, "http.failedstatus 500": 1}
    [latency] = [stat for stat in snapshot.series if stat.name == "http.latency"]
    assert latency.percentiles["99"] == 30 * MS
    intervals = list(HistoryReader(RunDirectory.open(Path(snapshot.directory)).history).intervals(level_s=1))
    assert [round((interval.start_ns - STARTED_NS) / MS) for interval in intervals] == [
        0,
        1000,
        2000,
        3000,
        4000,
        5000,
    ]
    issued = [entry.entry.issued_ns + entry.shift_ns for entry in read(RunDirectory.open(Path(snapshot.directory)))]
    assert issued[:2] == [STARTED_NS, STARTED_NS + S // 10]


def test_events_of_several_sources_are_in_order_of_time(tmp_path: Path) -> None:
    """Whatever the order in a file, events are recorded in the order of their times."""
    results = Results()
    late, early = results.requests_of("late"), results.requests_of("early")
    late.add(STARTED_NS + 3 * S, STARTED_NS + 4 * S)
    early.add(STARTED_NS, STARTED_NS + 3_500 * MS)
    users = results.values_of("gauge", "users")
    for at_s, value in ((2, 20.0), (0, 1.0), (1, 10.0)):
        users.add(STARTED_NS + at_s * S, value)
    results.values_of("counter", "bytes", "B").add(STARTED_NS + S, 512.0)
    results.mark(STARTED_NS + 2 * S, "deployed")
    snapshot = made(results, tmp_path)
    [gauge] = snapshot.gauges
    assert (gauge.min, gauge.value, gauge.max) == (1.0, 20.0, 20.0)
    assert [(mark.text, mark.time_ns) for mark in snapshot.marks] == [("deployed", STARTED_NS + 2 * S)]
    ends = [entry.kind for entry in read(RunDirectory.open(Path(snapshot.directory)))]
    assert ends == ["early", "late"]


def test_relative_times_begin_at_the_start_of_the_file(tmp_path: Path) -> None:
    """Times from any origin become times of day."""
    results = Results()
    results.started_ns = STARTED_NS
    results.requests_of("http").add(5 * S, 6 * S)
    assert made(results, tmp_path).started_ns == STARTED_NS + 5 * S


def test_a_file_without_time_of_day_ends_when_it_was_written(tmp_path: Path) -> None:
    """The time of the file is the only one there is."""
    results = Results()
    results.is_dated = False
    results.requests_of("http").add(0, 10 * S)
    snapshot = made(results, tmp_path, written_ns=STARTED_NS)
    assert snapshot.started_ns == STARTED_NS - 10 * S


def test_chunks_and_tokens_of_requests(tmp_path: Path) -> None:
    """First output, chunks and tokens become those of a request."""
    results = Results()
    results.requests_of("llm").add(
        STARTED_NS,
        STARTED_NS + 100 * MS,
        first_ns=STARTED_NS + 40 * MS,
        chunks_ns=[STARTED_NS + 60 * MS, STARTED_NS + 90 * MS],
        input_tokens=7,
        output_tokens=3,
    )
    series = {stat.name: stat for stat in made(results, tmp_path).series}
    assert series["llm.ttft"].max == 40 * MS
    assert (series["llm.itl"].count, series["llm.itl"].max) == (2, 30 * MS)
    assert (series["llm.input_tokens"].max, series["llm.output_tokens"].max) == (7, 3)


def test_the_unknown_end_of_a_failed_request_is_no_latency(tmp_path: Path) -> None:
    """What is unknown is never zero."""
    results = Results()
    results.requests_of("http").add(STARTED_NS, UNKNOWN, failure="reset")
    snapshot = made(results, tmp_path)
    assert counted(snapshot)["http.failedreset"] == 1
    assert not [stat for stat in snapshot.series if stat.count]


def test_parts_of_the_load_have_a_series_each(tmp_path: Path) -> None:
    """Endpoints have durations of their own, and a missing value is left out."""
    results = Results()
    requests = results.requests_of("http", {"waiting": "ms"})
    requests.add(STARTED_NS, STARTED_NS + 2 * MS, part="GET /a", values=[1.5])
    requests.add(STARTED_NS, STARTED_NS + 4 * MS, part="GET /b", values=[float("nan")])
    series = {f"{stat.name}{''.join(stat.labels.values())}": stat for stat in made(results, tmp_path).series}
    assert series["http.durationGET /a"].max == 2.0
    assert series["http.durationGET /b"].max == 4.0
    assert series["http.waiting"].count == 1


def test_an_interrupted_tool_makes_an_interrupted_run(tmp_path: Path) -> None:
    """A tool that was stopped has no complete run."""
    results = Results()
    results.is_interrupted = True
    results.requests_of("http").add(STARTED_NS, STARTED_NS + S)
    assert made(results, tmp_path).completeness == "interrupted"


def test_times_that_are_years_apart_are_refused(tmp_path: Path) -> None:
    """A wrong time makes an error, not years of history."""
    results = Results()
    results.requests_of("http").add(0, STARTED_NS)
    with pytest.raises(UsageError, match="the times in /data/acme"):
        made(results, tmp_path)
    assert not list_runs(tmp_path)


def test_a_failed_import_leaves_no_run(tmp_path: Path) -> None:
    """Half a run is never listed."""
    results = Results()
    results.values_of("series", "").add(STARTED_NS, 1.0)
    with pytest.raises(InstrumentError):
        made(results, tmp_path)
    assert not list_runs(tmp_path)


def test_many_events_fill_several_segments_of_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file is read in bounded memory, and stays exact."""
    monkeypatch.setenv("TELEMETRY_JOURNAL__SEGMENT_BYTES", str(1 << 20))
    results = Results()
    latency = results.values_of("series", "latency", "ms")
    for number in range(200_000):
        latency.add(STARTED_NS + number * MS // 10, float(number % 1_000))
    snapshot = made(results, tmp_path)
    [series] = snapshot.series
    assert (series.count, series.percentiles["50"], snapshot.exact) == (200_000, 499.0, True)
    assert len(list(RunDirectory.open(Path(snapshot.directory)).journal.iterdir())) > 1
    assert not JournalReader(RunDirectory.open(Path(snapshot.directory)).journal).damaged
