"""Real runs in a lake, read back by DuckDB, Polars and pandas: they have what the report has."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from tests.lakes import READERS, Read, Rows, by_polars
from tests.process.conftest import DEADLINE_S, Ground

from telemetry.history.tables.lake.table_file import (
    FILE,
    INTERVAL_PERCENTILES,
    PERCENTILES,
    TABLES,
    percentile_column,
)

pytestmark = pytest.mark.slow

ROUTE = "a\"b'c,{x}=\\\n é 火;%"
LOAD = f"""
import subprocess, sys, time, telemetry
with telemetry.start("load") as run:
    if len(sys.argv) == 1:
        other = subprocess.Popen([sys.executable, sys.argv[0], "child"])
        run.params({{"users": 4, "rate": 2.5, "server": "v,2 'x'", "warm": True}})
        run.mark("half \\"way\\"", route={ROUTE!r})
    odd = run.series("latency", unit="ms", route={ROUTE!r})
    plain = run.series("latency", unit="ms")
    requests, depth = run.counter("requests"), run.gauge("depth")
    until, number = time.monotonic() + 2.6, 0
    while time.monotonic() < until:
        odd.record(1.0 + number % 100)
        plain.record(0.25 * (number % 7 + 1))
        requests.add(2)
        depth.set(number % 5)
        number += 1
        if number % 50 == 0:
            with run.span("batch", track="worker 1", number=str(number)):
                time.sleep(0.01)
    if len(sys.argv) == 1:
        other.wait()
"""
TRAIN = """
import math, sys, telemetry
with telemetry.start("train") as run:
    run.params({"lr": float(sys.argv[1])})
    for step in range(300):
        loss = math.nan if step == 7 else 1 / (1 + step * float(sys.argv[1]))
        run.log({"loss": loss, "acc": step / 300}, step=step)
        if step % 100 == 0:
            run.log({"eval/loss": math.inf if step else 0.5}, step=step, axis="eval")
"""
LLM = """
import time, telemetry
with telemetry.start("llm") as run:
    requests = run.requests("llm", slo="ttft:20 e2el:5000", model="m")
    for number in range(120):
        request = requests.issue(input_tokens=number)
        time.sleep(0.03 if number % 4 == 0 else 0)
        request.first()
        for _ in range(number % 6):
            request.chunk(2)
        if number % 10 == 9:
            request.fail("cut")
        else:
            request.complete(finish_reason="stop")
"""
PACED = """
import os, time, telemetry
with telemetry.start("paced") as run:
    latency = run.series("latency", unit="ms")
    print("up", flush=True)
    while not os.path.exists("go"):
        latency.record(1.0)
        time.sleep(0.002)
"""
WaitUntil = Callable[..., Any]


@dataclass(frozen=True)
class Made:
    """Four runs in one lake, and their reports."""

    ground: Ground
    lake: Path
    runs: dict[str, Path]
    reports: dict[str, dict[str, Any]]
    """Reports by run id, with figures over time in steps of a second."""

    @property
    def names(self) -> dict[str, str]:
        return {run_id: report["name"] for run_id, report in self.reports.items()}


@pytest.fixture(scope="module")
def made() -> Iterator[Made]:
    """Run a load of two processes, a training twice, and an LLM load. Export the first one while it runs."""
    ground = Ground()
    try:
        program = [ground.program(name, text) for name, text in (("load", LOAD), ("train", TRAIN), ("llm", LLM))]
        for words in (
            ["--name", "load", "--to", "parquet", "--", sys.executable, program[0]],
            ["--name", "train", "--", sys.executable, program[1], "0.1"],
            ["--name", "train", "--", sys.executable, program[1], "0.2"],
            ["--name", "llm", "--", sys.executable, program[2]],
        ):
            code, _, err = ground.run("run", "--quiet", *words)
            assert code == 0, err
        runs = {
            path.name.rpartition("-")[2]: path
            for path in (ground.folder / "runs").iterdir()
            if path.name != "latest"
        }
        code, out, err = ground.run("export", "train", "--to", "parquet", "--json")
        assert code == 0, err
        assert [one["name"] for one in json.loads(out)] == ["train"]
        code, out, err = ground.run("export", *map(str, runs.values()), "runs/latest", "--to", "parquet")
        assert code == 0, err
        assert "4 runs written" in err
        reports = {}
        for run_id, path in runs.items():
            words = ["--every", "1s"] if (path / "history").is_dir() else []
            code, out, err = ground.run("report", str(path), "--json", *words)
            assert code == 0, err
            reports[run_id] = json.loads(out)
        yield Made(ground, ground.folder / "lake", runs, reports)
    finally:
        ground.close()


@pytest.fixture(params=READERS)
def read(request: pytest.FixtureRequest) -> Read:
    return READERS[request.param]


def by_run(rows: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = defaultdict(list)
    for row in rows:
        found[row["run_id"]].append(row)
    return found


def ident(of: dict[str, Any]) -> tuple[str, str]:
    labels = of["labels"] if isinstance(of["labels"], dict) else json.loads(of["labels"])
    return of["name"], json.dumps(labels, sort_keys=True)


def test_facts_of_runs(made: Made, read: Read) -> None:
    """One row for each run, with the numbers of its report; params by name and number."""
    found = {row["run_id"]: row for row in read(made.lake, "runs")}
    assert found.keys() == made.reports.keys()
    for run_id, row in found.items():
        report = made.reports[run_id]
        assert (row["name"], row["completeness"], row["state"]) == (report["name"], "complete", "COMPLETE")
        assert row["events"] == report["accounting"]["applied"]
        assert row["elapsed_s"] == report["elapsed_s"]
        assert row["exit_code"] == 0
        assert row["directory"] == str(made.runs[run_id].resolve())
        assert row["started"] == datetime.fromtimestamp(0, UTC) + timedelta(
            microseconds=report["started_ns"] // 1000
        )
        assert row["run"] == made.runs[run_id].name
    params = by_run(read(made.lake, "params"))
    (load,) = [run_id for run_id, name in made.names.items() if name == "load"]
    own = {row["name"]: (row["value"], row["number"]) for row in params[load]}
    assert own == {
        "users": ("4", 4.0),
        "rate": ("2.5", 2.5),
        "server": ("v,2 'x'", None),
        "warm": ("true", None),
    }
    assert len(by_run(read(made.lake, "producers"))[load]) == len(made.reports[load]["producers"]) >= 2


def test_final_figures(made: Made, read: Read) -> None:
    """Every series has the exact percentiles of the report; counters and gauges have its values."""
    series, values = by_run(read(made.lake, "series")), by_run(read(made.lake, "last_values"))
    for run_id, report in made.reports.items():
        rows = {ident(row): row for row in series.get(run_id, [])}
        assert rows.keys() == {ident(one) for one in report["series"]}
        for one in report["series"]:
            row = rows[ident(one)]
            for name in ("unit", "count", "total", "min", "max", "mean", "stddev", "exact"):
                assert row[name] == one[name], (one["name"], name)
            assert [row[percentile_column(key)] for key in PERCENTILES] == [
                one["percentiles"].get(key) for key in PERCENTILES
            ]
            assert json.loads(row["percentiles"]) == one["percentiles"]
        found = {(row["kind"], *ident(row)): row["value"] for row in values.get(run_id, [])}
        assert found == {("counter", *ident(one)): one["value"] for one in report["counters"]} | {
            ("gauge", *ident(one)): one["value"] for one in report["gauges"]
        }
    assert any(
        ROUTE in row["labels"] or json.loads(row["labels"]).get("route") == ROUTE for row in series[load(made)]
    )


def load(made: Made) -> str:
    return next(run_id for run_id, name in made.names.items() if name == "load")


def test_intervals_add_up(made: Made, read: Read) -> None:
    """Each has the figures of the report's step; together they have the count, sum and extremes of the run."""
    intervals = by_run(read(made.lake, "intervals"))
    for run_id, report in made.reports.items():
        rows: dict[tuple[str, str], Rows] = defaultdict(list)
        for row in intervals.get(run_id, []):
            rows[ident(row)].append(row)
        over_time = {ident(one): one["points"] for one in report["over_time"]}
        for one in report["series"]:
            own = sorted(rows[ident(one)], key=lambda row: row["elapsed_s"])
            assert sum(row["count"] for row in own) == one["count"]
            assert sum(row["total"] for row in own) == pytest.approx(one["total"], rel=1e-12)
            assert min(row["min"] for row in own) == one["min"]
            assert max(row["max"] for row in own) == one["max"]
            points = [point for point in over_time[ident(one)] if point["count"]]
            starts_s = [row["elapsed_s"] for row in own]
            assert starts_s[1:] == [point["start_s"] for point in points][1:]
            assert starts_s[0] <= points[0]["start_s"] < points[0]["end_s"], "it is drawn from the first event on"
            for row, point in zip(own, points, strict=True):
                assert (row["count"], row["min"], row["max"]) == (point["count"], point["min"], point["max"])
                for key in set(INTERVAL_PERCENTILES) & set(point["percentiles"]):
                    assert row[percentile_column(key)] == point["percentiles"][key]
                began = datetime.fromtimestamp(report["started_ns"] / 1e9, UTC) + timedelta(
                    seconds=row["elapsed_s"]
                )
                assert abs(row["time"] - began) < timedelta(milliseconds=1)
    assert len([row for row in intervals[load(made)] if row["name"] == "latency"]) >= 2 * 3


def test_values_over_time(made: Made, read: Read) -> None:
    """Increases of a counter add up to its value; the last value of a gauge is that of the result."""
    rows = by_run(read(made.lake, "value_intervals"))[load(made)]
    report = made.reports[load(made)]
    (requests,) = [one for one in report["counters"] if one["name"] == "requests"]
    own = [row for row in rows if (row["kind"], row["name"]) == ("counter", "requests")]
    assert len(own) >= 3
    assert sum(row["value"] for row in own) == requests["value"]
    depth = [row for row in rows if (row["kind"], row["name"]) == ("gauge", "depth")]
    assert {row["unit"] for row in depth} == {""}
    assert all(0 <= row["value"] < 5 for row in depth)


def test_steps_of_two_runs(made: Made, read: Read) -> None:
    """Both trainings are in the lake, each value once; a value that is not finite is null."""
    steps = by_run(read(made.lake, "steps"))
    trained = {run_id: report for run_id, report in made.reports.items() if report["name"] == "train"}
    assert len(trained) == 2
    for run_id, report in trained.items():
        rows = {(row["axis"], row["step"], row["name"]): row for row in steps[run_id]}
        assert len(rows) == len(steps[run_id]) == 300 * 2 + 3
        rate = report["params"]["lr"]
        for step in range(300):
            value = rows["step", step, "loss"]["value"]
            assert value == (None if step == 7 else 1 / (1 + step * rate))
        assert (rows["eval", 0, "eval/loss"]["value"], rows["eval", 200, "eval/loss"]["value"]) == (0.5, None)
        newest = {axis["name"]: axis["values"] for axis in report["axes"]}
        assert rows["step", 299, "acc"]["value"] == newest["step"]["acc"]
        assert {row["producers"] for row in steps[run_id]} == {1}


def test_requests_and_goodput(made: Made, read: Read) -> None:
    """Each request once, with its chunks; counts and goodput of the report come out again."""
    (run_id,) = [run_id for run_id, name in made.names.items() if name == "llm"]
    report, rows = made.reports[run_id], by_run(read(made.lake, "requests"))[run_id]
    (figures,) = report["requests"]
    outcomes = Counter(row["outcome"] for row in rows)
    assert outcomes["completed"] == figures["completed"]
    assert outcomes["failed"] == sum(figures["failed"].values())
    good = [row for row in rows if row["good"]]
    assert 0 < len(good) == figures["good"] < len(rows)
    done = [row for row in rows if row["outcome"] == "completed"]
    seconds = (max(row["ended_ns"] for row in done) - min(row["issued_ns"] for row in done)) / 1e9
    assert len(good) / seconds == pytest.approx(figures["goodput_per_s"], rel=1e-6)
    latency = next(one for one in report["series"] if one["name"] == "llm.latency")
    assert sum(row["latency_ns"] for row in done) == latency["total"]
    gaps = next(one for one in report["series"] if one["name"] == "llm.itl")
    assert sum(len(row["gaps_ns"]) for row in done) == gaps["count"]
    assert all(row["largest_gap_ns"] == max(row["gaps_ns"], default=None) for row in rows)
    (total, *windows) = sorted(by_run(read(made.lake, "loads"))[run_id], key=lambda row: row["window"] is not None)
    assert windows == []
    for name in ("issued", "completed", "good", "goodput_per_s", "attainment", "output_tokens_per_s", "slo"):
        assert total[name] == figures[name], name


def test_spans_and_marks(made: Made, read: Read) -> None:
    """Each span with its duration, as the report counts them; marks have their labels."""
    report, rows = made.reports[load(made)], by_run(read(made.lake, "spans"))[load(made)]
    (spans,) = [one for one in report["series"] if one["name"] == "span.batch"]
    assert len(rows) == spans["count"] > 2
    assert sum(row["duration_ns"] for row in rows) / 1e6 == pytest.approx(spans["total"], rel=1e-9)
    assert {row["track"] for row in rows} == {"worker 1"}
    assert len({row["producer"] for row in rows}) == 2
    assert len({json.loads(row["labels"])["number"] for row in rows}) >= 2
    marks = by_run(read(made.lake, "marks"))[load(made)]
    assert [(row["text"], json.loads(row["labels"])) for row in marks] == [('half "way"', {"route": ROUTE})]


def test_a_second_export_replaces_the_first(made: Made, tmp_path: Path) -> None:
    """The lake has the same files with the same bytes, and no other ones; other runs stay as they are."""

    def contents() -> dict[str, bytes]:
        return {
            str(path.relative_to(made.lake)): path.read_bytes() for path in made.lake.rglob("*") if path.is_file()
        }

    before = contents()
    code, _, err = made.ground.run("export", str(made.runs[load(made)]), "--to", "parquet:path=lake")
    assert code == 0, err
    assert contents() == before
    assert {path.name for path in made.lake.iterdir()} <= TABLES.keys()


def test_files_have_their_schema(made: Made) -> None:
    """Each file has the columns of the layout, plain texts, and the version of the layout."""
    for table, columns in TABLES.items():
        files = list((made.lake / table).glob(f"run=*/{FILE}"))
        assert files, table
        for path in files:
            found = pyarrow.parquet.ParquetFile(path)
            assert found.schema_arrow.names == ["run_id", *columns]
            assert found.metadata.metadata[b"telemetry.lake"] == b"1"
            assert found.metadata.metadata[b"telemetry.table"] == table.encode()
            assert str(found.schema_arrow.field("run_id").type) == "string"


def test_a_folder_of_runs(made: Made, tmp_path: Path) -> None:
    """A folder stands for all runs in it. A run that can't be read is reported and does not stop the others."""
    folder = tmp_path / "some"
    for path in made.runs.values():
        shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("journal"))
    broken = next(path for path in folder.iterdir() if path.name.startswith("llm-"))
    (broken / "final_snapshot.json").write_text("{}")
    lake = tmp_path / "lake"
    code, out, err = made.ground.run("export", str(folder), "--to", f"parquet:path={lake}", "--json")
    assert code == 6, err
    assert "left out: " in err
    assert len(json.loads(out)) == 3
    assert sorted(row["name"] for row in by_polars(lake, "runs")) == ["load", "train", "train"]


def test_longer_intervals(made: Made, tmp_path: Path) -> None:
    """`--every` adds seconds up; the sums stay the same."""
    lake = tmp_path / "lake"
    code, _, err = made.ground.run(
        "export", str(made.runs[load(made)]), "--to", f"parquet:path={lake}", "--every", "2"
    )
    assert code == 0, err
    rows, fine = by_polars(lake, "intervals"), by_run(by_polars(made.lake, "intervals"))[load(made)]
    assert len(rows) < len(fine)
    assert sum(row["count"] for row in rows) == sum(row["count"] for row in fine)


def test_several_runs_go_to_lakes_only(made: Made) -> None:
    """Other backends take one run; the message says so."""
    code, _, err = made.ground.run("export", *map(str, made.runs.values()), "--to", "jsonl")
    assert code == 2
    assert "only --to parquet exports several runs" in err


def test_a_merged_run_has_what_its_sources_added_up_to(made: Made, tmp_path: Path) -> None:
    """Series and requests are in the lake. Steps and spans stay with the source runs, and a message says so."""
    trained = [str(made.runs[run_id]) for run_id, name in made.names.items() if name == "train"]
    other = tmp_path / "runs"
    code, out, err = made.ground.run("merge", "--force", str(made.runs[load(made)]), *trained, "-o", str(other))
    assert code == 0, err
    lake = tmp_path / "lake"
    code, _, err = made.ground.run("export", out.strip(), "--to", f"parquet:path={lake}")
    assert code == 0, err
    assert "no steps and spans" in err
    (row,) = by_polars(lake, "runs")
    assert row["merged"] == 3
    series = {ident(one): one for one in by_polars(lake, "series")}
    for one in made.reports[load(made)]["series"]:
        assert series[ident(one)]["count"] == one["count"]
    assert not (lake / "steps").exists()


def test_a_live_run_is_written_when_it_has_ended(ground: Ground, wait_until: WaitUntil) -> None:
    """`export` waits for its end, and the lake has all of it."""
    program = ground.program("paced.py", PACED)
    job = ground.telemetry("run", "--quiet", "--name", "paced", "--", sys.executable, program)
    assert job.stdout is not None
    assert job.stdout.readline() == "up\n"
    export = ground.telemetry("export", "paced", "--to", "parquet:path=lake")
    wait_until((ground.folder / "lake").is_dir, DEADLINE_S, "a lake")
    assert not (ground.folder / "lake" / "runs").exists()
    (ground.folder / "go").touch()
    assert job.wait(DEADLINE_S) == 0
    _, err = export.communicate(timeout=DEADLINE_S)
    assert export.returncode == 0, err
    (row,) = by_polars(ground.folder / "lake", "runs")
    (series,) = [one for one in ground.final()["series"] if one["name"] == "latency"]
    assert row["completeness"] == "complete"
    intervals = [one for one in by_polars(ground.folder / "lake", "intervals") if one["name"] == "latency"]
    assert sum(one["count"] for one in intervals) == series["count"]


def test_a_dead_run_is_refused_until_it_is_recovered(ground: Ground, wait_until: WaitUntil) -> None:
    """The message says how to get a result; the lake then says that the run was interrupted."""
    child, endpoint = ground.serve()
    program = ground.program("paced.py", PACED)
    job = ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": endpoint})
    assert job.stdout is not None
    job.stdout.readline()

    def applied() -> int:
        return int(json.loads(ground.run("status", "job", "--json")[1])["accounting"]["applied"])

    wait_until(lambda: applied() > 200, DEADLINE_S, "events")
    for process in (child, job):
        process.send_signal(signal.SIGKILL)
        process.communicate()
    code, _, err = ground.run("export", "latest", "--to", "parquet")
    assert code == 1
    assert "telemetry recover" in err
    assert not (ground.folder / "lake").exists() or not list((ground.folder / "lake").rglob("*.parquet"))
    assert ground.run("recover", "latest")[0] == 0
    code, _, err = ground.run("export", "latest", "--to", "parquet")
    assert code == 0, err
    (row,) = by_polars(ground.folder / "lake", "runs")
    assert (row["state"], row["completeness"]) == ("INTERRUPTED", "interrupted")
    assert row["events"] == ground.final()["accounting"]["applied"]
    (series,) = [one for one in by_polars(ground.folder / "lake", "series") if one["name"] == "latency"]
    assert series["count"] == ground.final()["series"][0]["count"]


def test_without_pyarrow(made: Made, tmp_path: Path) -> None:
    """The message says what to install."""
    stub = tmp_path / "pyarrow.py"
    stub.write_text("raise ModuleNotFoundError(\"No module named 'pyarrow'\", name='pyarrow')\n")
    code, _, err = made.ground.run(
        "export", str(made.runs[load(made)]), "--to", "parquet", environ={"PYTHONPATH": str(tmp_path)}
    )
    assert code == 1
    assert "can't write Parquet: the package `pyarrow` is not installed" in err
    assert "telemetryd[parquet]" in err


def test_a_killed_export_leaves_the_lake_as_it_was(made: Made, tmp_path: Path, wait_until: WaitUntil) -> None:
    """Tables are replaced as whole files; what a killed process left behind no reader sees."""
    lake = tmp_path / "lake"
    run = str(made.runs[load(made)])
    assert made.ground.run("export", run, "--to", f"parquet:path={lake}")[0] == 0
    before = by_polars(lake, "intervals")
    child = made.ground.telemetry("export", run, "--to", f"parquet:path={lake}")

    def begun() -> bool:
        return bool(list(lake.glob(".*.tmp/*.parquet"))) or child.poll() is not None

    wait_until(begun, DEADLINE_S, "files of the export")
    child.kill()
    child.communicate()
    for reader in READERS.values():
        found = sorted(reader(lake, "intervals"), key=lambda row: (ident(row), row["elapsed_s"]))
        assert len(found) == len(before)
