"""Tests of what a run leaves for later.

It leaves the history, the record stream, the histogram log and the manifest.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from telemetry import limits
from telemetry.history import open_run
from telemetry.store.history import LEVELS, HistoryReader
from telemetry.store.interval_log import HIGHEST_TICKS, tag
from telemetry.store.run_directory import RunDirectory
from telemetry.transport import ControlClient
from telemetry.wire.control import Catchup, CaughtUp, GetHistory, History, SeriesKey
from telemetry.wire.events import Mark, Params, StreamRecord
from telemetry.wire.history import Interval

ROUNDS = 5
MARKS = 700  # of each producer in each round: together more than a page of catch-up
TICKS = {"ms": 1_000_000, "MB": 1_000_000, "1": 1}

VALUES = """
def values(who, round):
    "(name, unit, labels, digits) -> what this producer records in this round"
    found = {
        ("latency", "ms", (("route", "/a"),), 3): [0.25 * (1 + (n * 37 + round) % 1000) for n in range(2000)],
        ("latency", "ms", (("route", f"/{who}, =x"),), 3): [1.5 + n for n in range(100 * round)],
        ("gr\\u00f6\\u00dfe {x}", "MB", (), 1): [float((n * n) % 977) for n in range(50)],
    }
    if who == "a":
        found["wide", "1", (), 5] = [float(70_000 + n) for n in range(60_000)]
    return found
"""
PRODUCER = f"""{VALUES}
import sys, time, telemetry
who = sys.argv[1]
run = telemetry.start("ignored", policy="block")
for round in range({ROUNDS}):
    for (name, unit, labels, digits), recorded in values(who, round).items():
        record = run.series(name, unit=unit, digits=digits, **dict(labels)).record
        for value in recorded:
            record(value)
    run.counter("rounds", who=who).add(2)
    run.gauge("round").set(round)
    for number in range({MARKS}):
        run.mark(f"{{who}} {{round}} {{number}}")
    run.params({{"round": {{who: round}}}})
    time.sleep(1.0)
run.finish()
"""


class Series(NamedTuple):
    name: str
    unit: str
    labels: tuple[tuple[str, str], ...]
    digits: int


def recorded() -> dict[Series, Counter[float]]:
    """Every value of the run, by series, from the text that the producers ran."""
    names: dict[str, Any] = {}
    exec(VALUES, names)
    found: dict[Series, Counter[float]] = defaultdict(Counter)
    for who in ("a", "b"):
        for number in range(ROUNDS):
            for series, values in names["values"](who, number).items():
                if values:
                    found[Series(*series)].update(values)
    return found


def rebuilt(series: Series, values: Counter[float]) -> HdrHistogram:
    """Return a histogram of these values that only the library hdrhistogram has counted."""
    histogram = HdrHistogram(1, HIGHEST_TICKS, series.digits)
    for value, count in values.items():
        histogram.record_value(round(value * TICKS[series.unit]), count)
    return histogram


def every_page(client: ControlClient) -> Iterator[History]:
    start_ns: int | None = 0
    while start_ns is not None:
        page = client.request(GetHistory(start_ns=start_ns), 30.0)
        assert isinstance(page, History)
        yield page
        start_ns = page.next_ns


def every_record(client: ControlClient) -> Iterator[CaughtUp]:
    following, last = 0, 0
    while following <= last:
        page = client.request(Catchup(from_seq=following), 30.0)
        assert isinstance(page, CaughtUp)
        yield page
        following, last = page.next_seq, page.last_seq


def slots(intervals: list[Interval]) -> dict[int, Counter[int]]:
    """Counts of every HDR slot over all intervals, by the index of the series."""
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for interval in intervals:
        columns = interval.series
        numbers, counts = np.frombuffer(columns.slots, "<u4"), np.frombuffer(columns.counts, "<u4")
        begin = 0
        pairs = zip(np.frombuffer(columns.index, "<u4"), np.frombuffer(columns.occupied, "<u4"), strict=True)
        for index, occupied in pairs:
            end = begin + int(occupied)
            for slot, count in zip(numbers[begin:end].tolist(), counts[begin:end].tolist(), strict=True):
                found[int(index)][slot] += count
            begin = end
    return found


def slots_of(histogram: HdrHistogram) -> Counter[int]:
    counts = np.frombuffer(histogram.counts, np.uint64)
    return Counter({int(at): int(counts[at]) for at in np.flatnonzero(counts)})


def summed(columns: str, intervals: list[Interval]) -> Counter[int]:
    """Counter index → sum of its increases."""
    found: Counter[int] = Counter()
    for interval in intervals:
        values = getattr(interval, columns)
        for index, value in zip(
            np.frombuffer(values.index, "<u4").tolist(), np.frombuffer(values.value, "<f8").tolist(), strict=True
        ):
            found[index] += int(value)
    return found


def check_keys(keys: list[SeriesKey], wanted: dict[Series, Counter[float]]) -> dict[int, Series]:
    """Every instrument has one, which says what its values are; returns index → series."""
    by_kind: dict[str, list[SeriesKey]] = defaultdict(list)
    for key in keys:
        by_kind[key.kind].append(key)
    assert {(key.name, tuple(key.labels.items())) for key in by_kind["counter"]} == {
        ("rounds", (("who", "a"),)),
        ("rounds", (("who", "b"),)),
    }
    assert [key.name for key in by_kind["gauge"]] == ["round"]
    found = {
        key.index: Series(key.name, key.unit, tuple(key.labels.items()), key.digits) for key in by_kind["series"]
    }
    assert set(found.values()) == set(wanted)
    assert len(found) == len(wanted)
    assert all(key.ticks_per_unit == TICKS[key.unit] for key in by_kind["series"])
    return found


def check_history(pages: list[History], wanted: dict[Series, Counter[float]]) -> None:
    """Several pages, contiguous, and every value in its bucket once."""
    assert len(pages) >= 2, "too small to need a second page"
    assert all(sum(map(len, page.intervals)) <= limits.HISTORY_REPLY_BYTES for page in pages)
    assert [page.keys for page in pages[1:]] == [[]] * (len(pages) - 1)
    intervals = [msgspec.msgpack.decode(raw, type=Interval) for page in pages for raw in page.intervals]
    assert all(one.end_ns == two.start_ns for one, two in pairwise(intervals))
    named = check_keys(pages[0].keys, wanted)
    found = slots(intervals)
    assert {named[index]: counts for index, counts in found.items()} == {
        series: slots_of(rebuilt(series, values)) for series, values in wanted.items()
    }
    assert sorted(summed("counters", intervals).values()) == [2 * ROUNDS, 2 * ROUNDS]
    newest = [np.frombuffer(interval.gauges.value, "<f8").tolist() for interval in intervals]
    assert [values for values in newest if values][-1] == [ROUNDS - 1]


def check_records(records: list[StreamRecord]) -> None:
    """One contiguous sequence; each producer's own records in its own order."""
    assert [record.seq for record in records] == list(range(2 * ROUNDS * (MARKS + 1)))
    said: dict[str, list[str]] = defaultdict(list)
    for record in records:
        what = record.record
        assert isinstance(what, Mark | Params)
        said[record.producer].append(what.text if isinstance(what, Mark) else f"params {what.values}")
    wanted = []
    for who in ("a", "b"):
        wanted.append([])
        for number in range(ROUNDS):
            wanted[-1] += [f"{who} {number} {mark}" for mark in range(MARKS)]
            wanted[-1].append(f"params {{'round.{who}': {number}}}")
    assert sorted(said.values()) == wanted


def check_levels(directory: RunDirectory, wanted: dict[Series, Counter[float]]) -> None:
    """The files of each level alone hold the whole run."""
    names = sorted(path.name.partition("-")[0] for path in directory.history.glob("*.seg"))
    assert names == ["10s", "1s", "60s", "slices.seg"]
    reader = HistoryReader(directory.history)
    named = check_keys(HistoryReader.keys(reader), wanted)
    sums = {series: slots_of(rebuilt(series, values)) for series, values in wanted.items()}
    for level in LEVELS:
        intervals = list(reader.intervals(level_s=level))
        assert {named[index]: counts for index, counts in slots(intervals).items()} == sums, level
        assert sorted(summed("counters", intervals).values()) == [2 * ROUNDS, 2 * ROUNDS]
        assert reader.torn_bytes == 0


def check_log(path: Path, wanted: dict[Series, Counter[float]]) -> None:
    """The library's reader finds every series by its tag, and its intervals sum to the histogram of the values."""
    reader = HistogramLogReader(str(path), HdrHistogram(1, HIGHEST_TICKS, 3))
    found: dict[str, HdrHistogram] = {}
    while (histogram := reader.get_next_interval_histogram()) is not None:
        if histogram.get_tag() in found:
            found[histogram.get_tag()].add(histogram)
        else:
            found[histogram.get_tag()] = histogram
    reader.input_file.close()
    tags = {
        tag(SeriesKey(index=0, kind="series", name=series.name, labels=dict(series.labels))): series
        for series in wanted
    }
    assert set(found) == set(tags)
    for text, histogram in found.items():
        oracle = rebuilt(tags[text], wanted[tags[text]])
        assert slots_of(histogram) == slots_of(oracle), text
        assert histogram.get_total_count() == oracle.get_total_count()
    comments = [line for line in path.read_text().splitlines(keepends=True) if line.startswith("#[Series: ")]
    mapped = {facts["tag"]: facts for facts in (json.loads(line[len("#[Series: ") : -2]) for line in comments)}
    assert {text: (facts["name"], facts["unit"]) for text, facts in mapped.items()} == {
        text: (series.name, series.unit) for text, series in tags.items()
    }


def check_final(final: dict[str, Any], wanted: dict[Series, Counter[float]]) -> None:
    """The result's own numbers, from the same values."""
    assert (final["completeness"], final["exact"]) == ("complete", True)
    found = {
        Series(one["name"], one["unit"], tuple(one["labels"].items()), one["digits"]): one
        for one in final["series"]
    }
    assert set(found) == set(wanted)
    for series, values in wanted.items():
        one, ordered = found[series], sorted(values.elements())
        assert (one["count"], one["min"], one["max"]) == (len(ordered), ordered[0], ordered[-1]), series
        assert one["total"] == pytest.approx(math.fsum(ordered), rel=1e-14)
        assert one["percentiles"]["50"] == ordered[(len(ordered) + 1) // 2 - 1]
        assert one["percentiles"]["99"] == ordered[-(-99 * len(ordered) // 100) - 1]
        assert list(one["percentiles"]) == sorted(one["percentiles"], key=float)


def events(wanted: dict[Series, Counter[float]]) -> int:
    """Return the number of events of both producers: values, increments, gauges, marks, params."""
    return sum(sum(values.values()) for values in wanted.values()) + 2 * ROUNDS * (1 + 1 + MARKS + 1)


def check_manifest(directory: RunDirectory, aggregator: Any, endpoint: str, ground: Any) -> None:
    """Check that the manifest has who ran what, where, with which versions. Check that the link leads there."""
    manifest = json.loads(directory.manifest.read_text())
    link = ground.folder / "runs" / "latest"
    assert os.readlink(link) == directory.path.name, "a link that survives a move"
    assert (manifest["name"], manifest["run_id"], manifest["endpoint"]) == ("job", directory.run_id, endpoint)
    assert (manifest["pid"], manifest["cwd"]) == (aggregator.pid, str(ground.folder.resolve()))
    assert manifest["argv"][1:] == list(aggregator.args[3:])
    assert manifest["schema_version"] == 1
    assert all(manifest[key] for key in ("host", "platform", "python", "telemetry", "started_ns"))


def test_a_run_can_be_read_again_in_every_way(ground: Any, wait_until: Any) -> None:
    """Two producers for some seconds: history and records by control, tail, levels, log, result, manifest, link."""
    wanted = recorded()
    aggregator, endpoint = ground.serve(
        "--bind", f"ipc://{ground.folder}/ctl", environ={"TELEMETRY_RUN__ORPHAN_GRACE_S": "0"}
    )
    program = ground.program("producer.py", PRODUCER)
    environ = {"TELEMETRY_ENDPOINT": endpoint}
    producers = [ground.popen(sys.executable, program, who, environ=environ) for who in ("a", "b")]
    tail = ground.telemetry("tail", "job", "--records")
    lines = [json.loads(tail.stdout.readline()) for _ in range(2 * ROUNDS * (MARKS + 1))]
    for producer in producers:
        _, err = producer.communicate(timeout=90)
        assert producer.returncode == 0, err
    with ControlClient(endpoint) as client:
        records = list(every_record(client))
        # the newest second is in the history once it is over
        pages = wait_until(lambda: whole(list(every_page(client)), wanted), 30.0, "the whole history")
    assert [len(page.records) for page in records[:-1]] == [limits.CATCHUP_RECORDS] * (len(records) - 1)
    assert len(records) >= 2, "too few to need a second page"
    check_records([record for page in records for record in page.records])
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert [line["type"] for line in lines].count("params") == 2 * ROUNDS
    check_history(pages, wanted)

    code, _, err = ground.run("stop", "job")
    assert code == 0, err
    rest, _ = tail.communicate(timeout=60)
    assert (tail.returncode, rest) == (0, "")
    aggregator.communicate(timeout=60)
    directory = RunDirectory.open(ground.folder / "runs" / "latest")
    final = ground.final()
    assert final["accounting"]["applied"] == events(wanted)
    check_final(final, wanted)
    check_levels(directory, wanted)
    check_manifest(directory, aggregator, endpoint, ground)
    code, out, err = ground.run("report", "latest", "--format", "hlog", "-o", "x.hlog")
    assert (code, out, err) == (0, "", "telemetry: wrote x.hlog\n")
    check_log(ground.folder / "x.hlog", wanted)


def whole(pages: list[History], wanted: dict[Series, Counter[float]]) -> list[History] | None:
    """The pages, if every value of the run is in them."""
    intervals = [msgspec.msgpack.decode(raw, type=Interval) for page in pages for raw in page.intervals]
    counted = sum(int(np.frombuffer(interval.series.count, "<u8").sum()) for interval in intervals)
    return pages if counted == sum(sum(values.values()) for values in wanted.values()) else None


def files_with(ground: Any, secret: bytes) -> list[str]:
    files = [path for path in (ground.folder / "runs" / "latest").rglob("*") if path.is_file()]
    assert len(files) > 4
    return [path.name for path in files if secret in path.read_bytes()]


def test_no_secret_of_the_command_line_is_left_on_disk(ground: Any) -> None:
    """Options that look secret are masked in the result, in what is printed, and in every other file."""
    program = ground.program("job.py", "import telemetry\ntelemetry.start('x').counter('n').add()\n")
    words = ["--api-key", "hunter2", "--url=https://me:hunter2@host/", "TOKEN=hunter2", "--tokens", "7"]
    code, _, err = ground.run("run", "--name", "secretive", "--", sys.executable, program, *words)
    assert code == 0, err
    masked = ["--api-key", "***", "--url=https://me:***@host/", "TOKEN=***", "--tokens", "7"]
    assert ground.final()["command"]["argv"][2:] == masked
    assert "hunter2" not in err
    assert files_with(ground, b"hunter2") == []


def test_no_secret_of_the_parameters_is_left_on_disk(ground: Any) -> None:
    """The producer masks what looks secret, so that it is in no file."""
    program = ground.program(
        "job.py",
        "import telemetry\nrun = telemetry.start('x')\n"
        "run.params({'db': {'password': 'hunter2'}, 'url': 'https://me:hunter2@host/', 'lr': 0.1})\n",
    )
    code, _, err = ground.run("run", "--name", "secretive", "--", sys.executable, program)
    assert code == 0, err
    assert ground.final()["params"] == {"db.password": "***", "url": "https://me:***@host/", "lr": 0.1}
    assert files_with(ground, b"hunter2") == []


STEADY = """
import time, telemetry
with telemetry.start("steady") as run:
    latency = run.series("latency", unit="ms")
    time.sleep(0.4)
    begin = time.perf_counter()
    for number in range(1, 401):
        time.sleep(max(0.0, begin + 0.005 * number - time.perf_counter()))
        latency.record(2.0)
"""


def test_a_run_of_two_seconds_has_a_course(tmp_path: Path) -> None:
    """About twenty steps, none of which is drawn before the first event or after the last; and no value is lost."""
    subprocess.run([sys.executable, "-c", STEADY], cwd=tmp_path, check=True, timeout=60, capture_output=True)
    report = open_run("latest", tmp_path / "runs").report()
    (series,) = (one for one in report.over_time if one.name == "latency")
    assert report.step_s == 0.1
    assert len(series.points) > 10
    assert sum(point.count for point in series.points) == 400
    drawn = [point.rate is not None for point in series.points]
    assert sum(drawn) > 10
    first, last = drawn.index(True), len(drawn) - 1 - drawn[::-1].index(True)
    assert all(drawn[first : last + 1])
    assert not any(point.count for point in (*series.points[:first], *series.points[last + 1 :]))
    assert all(point.rate for point in (series.points[first], series.points[last])), "an edge is no drop to zero"
    (result,) = report.snapshot.series
    began_s = (result.began_ns - report.snapshot.started_ns) / 1e9
    assert began_s > 0.3, "the program waits before its first event"
    assert series.points[0].start_s == pytest.approx(began_s)
    pictures = open_run("latest", tmp_path / "runs").report(pictures=True).pictures
    assert pictures is not None
    assert pictures.edges_s[0] == series.points[0].start_s
