"""Pictures and curves of runs that really ran, beside what their programs know."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from typing import Any

import pytest
from tests.process.conftest import Ground

from telemetry.history import open_run
from telemetry.history.step_curves import closed_steps, read
from telemetry.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow

PROGRAM = """
import json, random, threading, time, telemetry
rng = random.Random(4)
told = {"losses": [], "served": 0, "completed": 0, "failed": 0, "tokens": 0}

def serve(run):
    chat = run.requests("chat", slo="e2el:5s")
    for number in range(120):
        request = chat.issue(input_tokens=8)
        time.sleep(rng.uniform(0.005, 0.02))
        request.first()
        if number % 6:
            request.complete(output_tokens=number)
            told["completed"] += 1
            told["tokens"] += number
        else:
            request.fail("timeout")
            told["failed"] += 1
    told["left"] = len([chat.issue() for _ in range(3)])

with telemetry.start("ignored") as run:
    server = threading.Thread(target=serve, args=(run,))
    server.start()
    delay, served, load = run.series("delay", unit="ms"), run.counter("served"), run.gauge("load")
    for step in range(400):
        told["losses"].append(1.0 / (step + 1) + rng.random() / 10)
        run.log({"loss": told["losses"][-1]}, step=step)
        delay.record(rng.choice([100.0, 110.0]) * rng.gauss(1.0, 0.01))
        served.add(2)
        told["served"] += 2
        load.set(step)
        time.sleep(0.01)
    server.join()
with open("told.json", "w") as file:
    json.dump(told, file)
"""


@pytest.fixture
def told(ground: Ground) -> Any:
    """Return what the program of the run `latest` knows, after about five seconds."""
    code, _, err = ground.run("run", "--name", "job", "--", sys.executable, ground.program("job.py", PROGRAM))
    assert code == 0, err
    return json.loads((ground.folder / "told.json").read_text())


def event_times(directory: RunDirectory) -> dict[str, tuple[float, float]]:
    """Return the times of the first and the last event of each instrument of the program, in seconds of the run."""
    snapshot = open_run(directory.path).result.snapshot
    stats = (
        stat
        for stat in (*snapshot.counters, *snapshot.series)
        if stat.began_ns and not stat.name.startswith(("host.", "process.", "telemetry."))
    )
    started_ns = snapshot.started_ns
    return {stat.name: ((stat.began_ns - started_ns) / 1e9, (stat.ended_ns - started_ns) / 1e9) for stat in stats}


def test_pictures_of_a_run_are_what_it_did(ground: Ground, told: Any) -> None:
    """Sums over time are the program's own counts, and the curve of the loss is its losses."""
    code, out, err = ground.run("report", "latest", "--json", "--pictures")
    assert code == 0, err
    document = json.loads(out)
    pictures, [loss] = document["pictures"], document["curves"]
    assert (loss["axis"], loss["name"], loss["count"]) == ("step", "loss", 400)
    assert (loss["first"], loss["last"]) == (told["losses"][0], told["losses"][-1])
    assert (loss["min"], loss["max"]) == (min(told["losses"]), max(told["losses"]))
    assert told["losses"][loss["min_step"]] == loss["min"]
    assert loss["steps"][-1] == 399
    [axis] = document["axes"]
    assert (axis["lowest"], axis["highest"]) == (0, 399)
    assert 10.0 < 400 / (axis["ended_ns"] - axis["began_ns"]) * 1e9 < 100.0

    times = event_times(RunDirectory.open(ground.folder / "runs" / "latest"))

    def total(rates: list[float | None], *names: str) -> float:
        """Sum the rates over the time in which these instruments had events, as docs/METRICS.md counts it."""
        begin_s, end_s = min(times[name][0] for name in names), max(times[name][1] for name in names)
        steps = zip(rates, pairwise(pictures["edges_s"]), strict=True)
        return sum((rate or 0.0) * max(0.0, min(end, end_s) - max(start, begin_s)) for rate, (start, end) in steps)

    [chat], [served], [load] = pictures["requests"], pictures["counters"], pictures["gauges"]
    assert total(served["rates"], "served") == pytest.approx(told["served"])
    assert total(chat["completed_per_s"], "chat.completed") == pytest.approx(told["completed"])
    assert total(chat["good_per_s"], "chat.good") == pytest.approx(told["completed"])
    assert total(chat["failed_per_s"], *times) == pytest.approx(told["failed"])  # troubles: over the whole program
    assert total(chat["output_tokens_per_s"], "chat.output_tokens") == pytest.approx(told["tokens"])
    assert chat["in_flight"][-1] == told["left"]
    assert [value for value in load["values"] if value is not None][-1] == 399
    assert [one["name"] for one in pictures["heat_maps"]][:1] == ["chat.latency"]
    delay = next(one for one in pictures["heat_maps"] if one["name"] == "delay")
    assert sum(map(sum, delay["counts"])) == 400
    series = {one["name"]: one["count"] for one in document["series"]}
    for one in pictures["distributions"]:
        assert sum(one["counts"]) + one["below"] + one["above"] == series[one["name"]]


def test_pictures_are_on_request(ground: Ground, told: Any) -> None:
    """JSON has curves always and pictures when asked for; a page next to it changes nothing."""
    directory = RunDirectory.open(ground.folder / "runs" / "latest")
    code, out, err = ground.run("report", "latest", "--json", "-o", "all/", "--format", "html")
    assert code == 0, err
    document = json.loads((ground.folder / "all" / "report.json").read_text())
    assert document["pictures"] is None
    assert [one["count"] for one in document["curves"]] == [len(told["losses"])]
    code, out, err = ground.run("report", "latest", "--json", "--pictures", "--from", "1s", "--to", "3s")
    assert code == 0, err
    part = json.loads(out)
    first_s = min(begin_s for begin_s, _ in event_times(directory).values())
    assert part["pictures"]["edges_s"][0] == max(first_s, part["time_range"]["start_s"])
    assert part["pictures"]["edges_s"][-1] == part["time_range"]["end_s"]
    assert part["curves"] == document["curves"]
    code, out, err = ground.run("report", "latest", "--pictures")
    assert code == 2
    assert "--pictures works only with the format json" in err


def test_every_step_is_in_the_log(ground: Ground, told: Any) -> None:
    """Step by step, and as the curve of the library."""
    directory = RunDirectory.open(ground.folder / "runs" / "latest")
    steps = list(closed_steps(directory))
    assert [one.step for one in steps] == list(range(400))
    assert [one.values["loss"] for one in steps] == told["losses"]
    report = open_run(ground.folder / "runs" / "latest").report(pictures=True)
    assert [curve.count for curve in report.curves] == [curve.count for curve in read(directory)] == [400]
    assert report.pictures is not None
    assert report.pictures.edges_s[0] == min(begin_s for begin_s, _ in event_times(directory).values())
