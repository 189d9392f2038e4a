"""Steps of the wall clock. Only a machine of one's own lets a test set its clock, so the step is in the processes:
what Python tells them of the wall clock is off by as much as a file says, see site/sitecustomize.py."""

from __future__ import annotations

import random
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from telemetry.store.history import HistoryReader
from telemetry.transport import subscribe

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
    gauge shows its newest value within two seconds."""
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
