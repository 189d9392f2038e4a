"""SIGKILL of programs that issue requests: their counters are salvaged, and the log says what it lacks."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from telemetry.history.request_log import read
from telemetry.store.run_directory import RunDirectory

pytestmark = pytest.mark.usefixtures("native")

THREADS = 2
KILLS = 8
PROGRAM = """
import mmap, os, sys, threading, time, telemetry
with open(sys.argv[1], "r+b") as file:
    cells = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
kind = telemetry.start("load").requests("llm")

def issue_all(number):
    while True:
        for _ in range(20):
            request = kind.issue()
            request.first()
            request.chunk()
            if cells[number] % 10:
                request.complete(output_tokens=2)
            else:
                request.fail("busy")
            cells[number] += 1
        time.sleep(0.002)

for number in range(len(cells)):
    threading.Thread(target=issue_all, args=(number,)).start()
"""


def outcomes_of(final: dict[str, Any]) -> int:
    """Return how many requests ended, by the counters."""
    return sum(one["value"] for one in final["counters"] if one["name"] in ("llm.completed", "llm.failed"))


def start(ground: Any, endpoint: str, number: int) -> tuple[subprocess.Popen[str], Path]:
    counts: Path = ground.folder / f"{number}.counts"
    counts.write_bytes(bytes(8 * THREADS))
    program = ground.program("load.py", PROGRAM)
    environ = {"TELEMETRY_ENDPOINT": endpoint}
    return ground.popen(sys.executable, program, str(counts), environ=environ), counts


def requests_in(counts: Path) -> int:
    """Return how many requests the threads of a program have ended."""
    return sum(memoryview(counts.read_bytes()).cast("Q"))


def test_requests_that_the_log_lacks_are_counted(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """Each request in the counters of a killed program is in the log or counted as left out.

    A request whose call had not returned at the kill may be in only one of the two counts.
    """
    aggregator, endpoint = ground.serve()
    for number in range(KILLS):
        program, counts = start(ground, endpoint, number)
        least = chance.choice([1, 20, chance.randint(1, 2_000)])
        crew.wait_until(lambda counts=counts, least=least: requests_in(counts) >= least, 60.0, "it issues")
        program.kill()
        program.wait()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    assert final["completeness"] == "complete"
    log, outcomes = final["request_log"], outcomes_of(final)
    in_log = sum(1 for _ in read(RunDirectory.open(ground.folder / "runs" / "latest")))
    assert log["kept"] == in_log
    assert abs(outcomes - log["kept"] - log["left_out"]) <= KILLS * THREADS
    assert log["left_out"] > 0, "each was killed within a flush period"
    code, report, err = ground.run("report", "latest")
    assert code == 0, err
    assert f"the request log lacks {log['left_out']:,} of " in report
    code, _, said = ground.run("export", "latest", "--requests", "requests.csv")
    assert code == 0, said
    assert f"the request log lacks {log['left_out']:,} of " in said
