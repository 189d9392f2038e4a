"""`telemetry merge`: two real runs become one that every command takes."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.store.interval_log import HIGHEST_TICKS, tag
from telemetry.wire.control import SeriesKey

pytestmark = pytest.mark.slow

JOB = """
import sys, telemetry
who = int(sys.argv[1])
run = telemetry.start("job")
run.params({"who": who, "size": 3000})
latency, other = run.series("latency", unit="ms", op="read"), run.series(f"only{who}", unit="ms")
requests, load = run.counter("requests"), run.gauge("load")
for number in range(3000):
    latency.record(who * (1 + number % 1000) / 8)
    requests.add(1)
other.record(4.25)
load.set(who)
run.mark(f"done {who}")
run.finish()
"""
TICKS = 1_000_000


def values() -> np.ndarray[Any, np.dtype[np.float64]]:
    """All that both runs recorded of the series they share."""
    steps = 1 + np.arange(3000) % 1000
    return np.sort(np.concatenate([steps / 8, 3 * steps / 8]))


@pytest.fixture
def runs(ground: Any) -> list[str]:
    """The directories of two runs, the later one slower than the other. Names do not tell which of a second came
    first."""
    program = ground.program("job.py", JOB)
    made: list[str] = []
    for who in ("1", "3"):
        code, _, err = ground.run("run", "--name", "job", "--", sys.executable, program, who)
        assert code == 0, err
        made += {str(path) for path in (ground.folder / "runs").glob("job-*")} - set(made)
    return made


def merged(ground: Any, *words: str) -> Path:
    code, out, err = ground.run("merge", *words)
    assert code == 0, err
    assert "complete: both, 12,0" in err
    return Path(out.strip())


def test_percentiles_of_all_runs_are_exact(ground: Any, runs: list[str]) -> None:
    """The percentiles are order statistics of the values in both journals.

    Without a journal, histograms give the percentiles.
    """
    path = merged(ground, *runs, "--name", "both")
    final = json.loads((path / "final_snapshot.json").read_text())
    assert (final["exact"], final["exact_reason"]) == (True, "")
    stats = {stat["name"]: stat for stat in final["series"]}
    found, expected = stats["latency"], values()
    assert (found["exact"], found["error_bound"]) == (True, 0.0)
    assert found["percentiles"] == {
        name: expected[rank(parse_percentile(name), expected.size) - 1] for name in found["percentiles"]
    }
    shutil.rmtree(Path(runs[0]) / "journal")
    code, out, err = ground.run("merge", *runs, "--name", "less")
    assert code == 0, err
    assert "some percentiles are not exact: " in err
    assert "it has no journal" in err
    final = json.loads((Path(out.strip()) / "final_snapshot.json").read_text())
    assert [(stat["name"], stat["exact"]) for stat in final["series"]] == [
        ("latency", False),
        ("only1", True),
        ("only3", True),
    ]


def test_a_torn_journal_gives_no_exact_percentiles(ground: Any, runs: list[str]) -> None:
    """Values at its end are missing, so a rank among the others would be wrong."""
    [segment] = (Path(runs[1]) / "journal").glob("*.seg")
    segment.write_bytes(segment.read_bytes()[:-60_000])
    path = merged(ground, *runs, "--name", "both")
    stats = {stat["name"]: stat for stat in json.loads((path / "final_snapshot.json").read_text())["series"]}
    assert (stats["latency"]["exact"], stats["latency"]["count"]) == (False, 6_000)
    warnings = json.loads((path / "final_snapshot.json").read_text())["warnings"]
    assert [warning for warning in warnings if "some percentiles are not exact" in warning]


def test_two_runs_become_one(ground: Any, runs: list[str]) -> None:
    """Right after they ended: every value is in its numbers, within the bound, and every command takes it."""
    path = merged(ground, *runs, "--name", "both", "--no-exact")
    code, out, err = ground.run("report", str(path), "--json")
    assert code == 0, err
    report = json.loads(out)
    stats = {stat["name"]: stat for stat in report["series"]}
    found, expected = stats["latency"], values()
    assert (found["count"], found["min"], found["max"]) == (expected.size, expected[0], expected[-1])
    assert found["total"] == pytest.approx(expected.sum())
    assert found["stddev"] == pytest.approx(expected.std())
    for name, value in found["percentiles"].items():
        exact = expected[rank(parse_percentile(name), expected.size) - 1]
        assert exact <= value <= exact * (1 + found["error_bound"]) + found["resolution"]
    assert [stats[f"only{who}"]["exact"] for who in (1, 3)] == [True, True]
    assert (report["exact"], report["completeness"], report["command"]) == (False, "complete", None)
    assert report["counters"][0]["value"] == 6000
    assert [mark["text"] for mark in report["marks"]] == ["done 1", "done 3"]
    assert [source["series"][0]["odd"] for source in report["sources"]] == [False, True]
    assert report["params"]["size"] == 3000
    assert {report["params"][f"who ({source['label']})"] for source in report["sources"]} == {1, 3}
    shown = [("report", "both"), ("report", str(path), "--format", "md"), ("top", str(path), "--once")]
    for words in shown:
        code, out, err = ground.run(*words)
        assert code == 0, err
        assert "latency" in out
        assert "◀ ×3" in out
    code, out, _ = ground.run("ls", "--json")
    assert {run["name"] for run in json.loads(out)} == {"job", "both"}
    assert code == 0


def test_its_history_has_every_value(ground: Any, runs: list[str]) -> None:
    """The history has every value, as the tools of HdrHistogram read it.

    This holds also with all starts at one moment.
    """
    for number, words in enumerate([(), ("--align-starts",)]):
        path = merged(ground, *runs, "--name", "both", "-o", str(ground.folder / f"m{number}"), *words)
        log = ground.folder / f"m{number}.hlog"
        code, _, err = ground.run("report", str(path), "-o", str(log))
        assert code == 0, err
        reader = HistogramLogReader(str(log), HdrHistogram(1, HIGHEST_TICKS, 3))
        wanted = tag(SeriesKey(index=0, name="latency", kind="series", labels={"op": "read"}))
        total = HdrHistogram(1, HIGHEST_TICKS, 3)
        while (interval := reader.get_next_interval_histogram()) is not None:
            if interval.get_tag() == wanted:
                total.add(interval)
        reader.close()
        expected = HdrHistogram(1, HIGHEST_TICKS, 3)
        for value in values().tolist():
            expected.record_value(round(value * TICKS))
        assert total.get_total_count() == 6000
        assert list(total.counts) == list(expected.counts)


def test_a_live_run_is_not_merged(ground: Any, runs: list[str]) -> None:
    """A live run is not merged, because it has no result yet, and nothing is made."""
    ground.serve()
    before = sorted((ground.folder / "runs").iterdir())
    code, out, err = ground.run("merge", runs[0], "latest")
    assert (code, out) == (1, "")
    assert "the run is still going" in err
    assert sorted((ground.folder / "runs").iterdir()) == before
