"""Steps of the wall clock. Only a machine of one's own lets a test set its clock, so the step is in the processes:
what Python tells them of the wall clock is off by as much as a file says, see site/sitecustomize.py."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.trace_checker import problems

from telemetry.store.history import HistoryReader
from telemetry.transport import subscribe

SENDS = """
import sys, time, telemetry
with telemetry.start("sender") as run:
    for number in range(20):
        with run.span("send", flow_out=f"m{number}"):
            time.sleep(0.002)
        print(number, flush=True)
        sys.stdin.readline()
"""
RECEIVES = """
import sys, telemetry
with telemetry.start("receiver") as run:
    for line in sys.stdin:
        with run.span("receive", flow_in=f"m{line.strip()}"):
            pass
        print(line.strip(), flush=True)
"""
RATE = 10_000
HOUR_S = 3_600


def history_count(run: Path) -> int:
    """Values of all series in all intervals of a history."""
    columns = [
        memoryview(one.series.count).cast("Q") for one in HistoryReader(run / "history").intervals(level_s=1)
    ]
    return sum(sum(column) for column in columns)


def test_steps_of_the_wall_clock_change_no_number(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """Hours forward, and further back: counts, elapsed time, rates, percentiles and the history stay right, and a
    gauge shows its newest value."""
    clock = ground.folder / "clock"
    clock.write_text("0")
    environ = faults.seam({"FAULT_WALL_CLOCK": str(clock)})
    aggregator, endpoint = ground.serve(environ=environ)
    sender = crew.send("job", endpoint, environ, rate=RATE, gauge=1)
    seen = []
    with subscribe(endpoint, conflate=False) as snapshots:
        for step in (chance.randint(1, 30), chance.randint(-60, -31)):
            upto = sender.sent + chance.randint(RATE // 2, 5 * RATE // 4)
            while sender.sent < upto:
                seen.append((time.monotonic(), next(snapshots)))
            clock.write_text(str(step * HOUR_S))
        moved_at = sender.sent
        while sender.sent < moved_at + 2 * RATE:
            seen.append((time.monotonic(), next(snapshots)))
    gauge = seen[-1][1].gauges[0].value
    assert gauge is not None
    assert gauge > moved_at, "the gauge waits until the clock is where it was"
    sender.end()
    sender.done()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert (final["completeness"], final["exact"]) == ("complete", True)
    assert faults.first_values(final, "job") == sender.sent
    assert faults.values_of(final, "job")["percentiles"]["50"] == (sender.sent - 1) // 2
    assert history_count(ground.folder / "runs" / "latest") == sender.sent
    for (at, one), (then, other) in pairwise(seen):
        assert abs((other.elapsed_s - one.elapsed_s) - (then - at)) < 1.0
    rates = [one.series[0].window.rate for _, one in seen if one.elapsed_s > 2.2]
    assert min(rates) > RATE / 3
    assert max(rates) < RATE * 2


REQUESTS_PER_S = 50
TOKENS_PER_REQUEST = 7


def test_steps_of_the_wall_clock_change_no_rate_of_requests(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """Hours forward, further back, and where it was: two processes issue meanwhile, one of which begins when the
    clock is wrong. Report and gates say the rate that the processes themselves measured."""
    clock = ground.folder / "clock"
    clock.write_text("0")
    environ = faults.seam({"FAULT_WALL_CLOCK": str(clock)})
    aggregator, endpoint = ground.serve(environ=environ)
    loads = [crew.load("first", endpoint, environ, REQUESTS_PER_S)]
    for step in (3 * HOUR_S, -2 * HOUR_S, 0):
        crew.progress(loads[0], chance.randint(REQUESTS_PER_S, 2 * REQUESTS_PER_S))
        clock.write_text(str(step))
        if len(loads) == 1:
            loads.append(crew.load("second", endpoint, environ, REQUESTS_PER_S))
    crew.progress(loads[0], REQUESTS_PER_S)
    for load in loads:
        load.end()
    facts = [load.done() for load in loads]
    faults.stop(endpoint, aggregator)
    completed, seconds = sum(one["completed"] for one in facts), facts[0]["seconds"]
    rate = completed / seconds
    code, out, err = ground.run("report", "latest", "--format", "json")
    assert code == 0, err
    (requests,) = json.loads(out)["requests"]
    for definition in ("while_issuing", "loadgen", "overall"):
        said = requests["rates"][definition]
        assert abs(said["requests_per_s"] - rate) < 0.05 * rate, definition
        assert abs(said["tokens_per_s"] - TOKENS_PER_REQUEST * rate) < 0.05 * TOKENS_PER_REQUEST * rate, definition
        name = "throughput" if definition == "while_issuing" else f"throughput.{definition}"
        near = said["requests_per_s"]
        for gate in (f"{name}(llm.latency) > {near * 0.999}/s", f"{name}(llm.latency) < {near * 1.001}/s"):
            code, out, err = ground.run("gate", "latest", gate)
            assert code == 0, (gate, out, err)
    history = HistoryReader(ground.folder / "runs" / "latest" / "history")
    for level_s in (1, 10):
        lengths = [(one.end_ns - one.start_ns) / 1e9 for one in history.intervals(level_s=level_s)]
        assert max(lengths) < level_s + 1.0
        assert min(lengths) >= 0.0


CLOCKS_US = 100_000
"""Half of the longest round trip of a hello on a busy machine. The clocks are 1 s apart, and known no better."""


def test_an_arrow_points_forward_between_wrong_clocks(ground: Any, faults: Any) -> None:
    """The wall clocks of two processes are a second apart, one behind and one ahead of the aggregator's."""
    aggregator, endpoint = ground.serve("--to", "timeline")
    pipes = {"stdin": subprocess.PIPE}
    peers = []
    for name, text, off_s in (("sends", SENDS, "0.5"), ("receives", RECEIVES, "-0.5")):
        clock = ground.folder / f"clock-{name}"
        clock.write_text(off_s)
        environ = faults.seam({"FAULT_WALL_CLOCK": str(clock), "TELEMETRY_ENDPOINT": endpoint})
        peers.append(ground.popen(sys.executable, ground.program(f"{name}.py", text), environ=environ, **pipes))
    sender, receiver = peers
    for _ in range(20):
        receiver.stdin.write(sender.stdout.readline())
        receiver.stdin.flush()
        sender.stdin.write(receiver.stdout.readline())
        sender.stdin.flush()
    for peer in peers:
        peer.communicate(timeout=60)
        assert peer.returncode == 0
    faults.stop(endpoint, aggregator)
    data = (ground.folder / "runs" / "latest" / "timeline" / "timeline.json").read_bytes()
    assert problems(data) == []
    events = json.loads(data)["traceEvents"]
    sent, received = ({one["id"]: one["ts"] for one in events if one["ph"] == phase} for phase in "sf")
    assert sent.keys() == received.keys() == {f"m{number}" for number in range(20)}
    late_us = [received[key] - sent[key] for key in sent]
    assert min(late_us) > -CLOCKS_US, late_us
    assert max(late_us) < 400_000, late_us
