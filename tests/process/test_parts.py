"""Parts of a run that really ran: the command's numbers beside those of the run's own journal."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
from tests.process.conftest import Ground
from tests.unit.history.journaled import Heard, chosen, journaled

from telemetry import limits
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.store.history import HistoryReader
from telemetry.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow

PROGRAM = """
import random, time, telemetry
rng = random.Random(4)
with telemetry.start("ignored") as run:
    latency, requests, load = run.series("latency", unit="ms"), run.counter("requests"), run.gauge("load")
    for turn in range(450):
        for _ in range(20):
            latency.record(rng.lognormvariate(2.0, 1.0) * (1 + turn // 200))
        requests.add(3)
        load.set(turn)
        time.sleep(0.01)
"""


@pytest.fixture
def directory(ground: Ground) -> RunDirectory:
    """Return the directory of a run of about five seconds."""
    code, _, err = ground.run("run", "--name", "job", "--", sys.executable, ground.program("job.py", PROGRAM))
    assert code == 0, err
    return RunDirectory.open(ground.folder / "runs" / "latest")


def told(ground: Ground, *words: str) -> Any:
    code, out, err = ground.run("report", "latest", "--json", *words)
    assert code == 0, err
    return json.loads(out)


def agrees(document: Any, own: list[Heard]) -> None:
    """Check that the numbers of a report agree with those that the journal has of the same intervals."""
    (latency,) = document["series"]
    values = np.sort([value for one in own for value in one.values.get("latency", ())])
    assert (latency["count"], latency["min"], latency["max"]) == (values.size, values[0], values[-1])
    assert document["counters"][0]["value"] == sum(one.increases["requests"] for one in own)
    for percentile, value in latency["percentiles"].items():
        true = values[rank(parse_percentile(percentile), values.size) - 1]
        assert abs(value - true) <= max(latency["error_bound"] * true, latency["resolution"])
    assert sum(point["count"] for point in document["over_time"][0]["points"]) == values.size


def check_edges(edges_s: list[float], wanted_s: list[float], intervals: list[Heard]) -> None:
    """Check that each edge is that of the interval around the wanted moment, so at most half of it away."""
    origin_ns, end_ns = intervals[0].start_ns, intervals[-1].end_ns
    for edge_s, at_s in zip(edges_s, wanted_s, strict=True):
        at_ns = min(origin_ns + round(at_s * 1e9), end_ns)
        around = next(one for one in intervals if at_ns <= one.end_ns)
        half_s = (around.end_ns - around.start_ns) / 2e9
        assert edge_s == pytest.approx((at_ns - origin_ns) / 1e9, abs=half_s + 0.05), (edges_s, wanted_s)


def test_a_part_is_that_part_of_the_journal(ground: Ground, directory: RunDirectory) -> None:
    """A part that the command prints agrees with that part of the journal.

    The run has a real producer, a real aggregator and a clock that the test does not set.
    """
    agrees(whole := told(ground), list(journaled(directory)))
    intervals = list(journaled(directory, sliced=True))
    for own, drawn in zip(intervals, HistoryReader(directory.history).fine(), strict=True):
        own.start_ns, own.end_ns = drawn.start_ns, drawn.end_ns
    assert whole["exact"]
    assert whole["bounds"][0]["percentiles"]["50"]["low"] <= whole["series"][0]["percentiles"]["50"]
    first_ns = next(one.start_ns for one in intervals if "latency" in one.values)
    began_s = (first_ns - intervals[0].start_ns) / 1e9  # a program may take seconds to start
    for moments_s in ((-began_s, 2.0), (2.0, 3.0), (1.3, 3.1), (2.5, 60.0)):
        start_s, end_s = (began_s + moment_s for moment_s in moments_s)
        part = told(ground, "--from", f"{start_s}s", "--to", f"{end_s}s")
        own = chosen(intervals, start_s, end_s)
        agrees(part, own)
        assert not part["exact"]
        edges_ns = [at_ns - intervals[0].start_ns for at_ns in (own[0].start_ns, own[-1].end_ns)]
        # the last second ends with the run, and its last slice with the newest event, but at most so long before
        part_ns = [round(part["time_range"][key] * 1e9) for key in ("start_s", "end_s")]
        apart_ns = [abs(own_ns - at_ns) for own_ns, at_ns in zip(edges_ns, part_ns, strict=True)]
        assert max(apart_ns) <= limits.SLICE_LAG_NS, (edges_ns, part_ns)
        check_edges([at_ns / 1e9 for at_ns in edges_ns], [start_s, end_s], intervals)
        loads = [one.gauges["load"] for one in own if "load" in one.gauges]  # the last interval may have none
        assert part["gauges"][0]["value"] == loads[-1]


def test_a_run_that_has_only_begun(ground: Ground) -> None:
    """The report of a run whose history is still being written comes from the aggregator.

    A part of it is refused with the reason.
    """
    child, endpoint = ground.serve()
    code, out, err = ground.run("report", "job", "--json")
    assert code == 0, err
    assert json.loads(out)["source"] == "status"
    code, _, err = ground.run("report", "job", "--from", "1s")
    assert code == 2
    assert "the run is still going, and time ranges are for runs that have ended" in err
    assert ground.run("stop", endpoint)[0] == 0
    child.wait(60)


def test_a_run_that_kept_no_history(ground: Ground) -> None:
    """The report of a run without a history has the bounds that the result allows.

    A part of it is refused with the name of the setting.
    """
    ground.environ["TELEMETRY_HISTORY__ENABLED"] = "false"
    code, _, err = ground.run("run", "--name", "job", "--", sys.executable, ground.program("job.py", PROGRAM))
    assert code == 0, err
    document = told(ground)
    assert document["over_time"] == []
    assert document["bounds"][0]["percentiles"]["50"]["low"] is not None
    code, _, err = ground.run("report", "latest", "--steady")
    assert code == 1
    assert "has no history" in err
    assert "history.enabled" in err
