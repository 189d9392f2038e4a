"""A slow rank among real processes: found live and afterwards, by a program that does not know of it."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest

from telemetry.transport.client import ControlClient
from telemetry.tui.feed.news import News, StragglersOf
from telemetry.tui.feed.steps_thread import ControlRecords, StepsThread
from telemetry.wire.control import GetStatus, Status

pytestmark = pytest.mark.slow

JOB = """
import multiprocessing, os, sys, time
import telemetry

def train(rank, slow, barrier):
    os.environ["RANK"] = str(rank)
    for step in range(150):
        with telemetry.span("compute"):
            time.sleep(0.04)
            if rank == slow:
                time.sleep(0.04)
        with telemetry.span("all_reduce"):
            barrier.wait()
        telemetry.log({"loss": 1.0 / (step + 1)}, step=step)

if __name__ == "__main__":
    barrier = multiprocessing.Barrier(6)
    ranks = [multiprocessing.Process(target=train, args=(rank, int(sys.argv[1]), barrier)) for rank in range(6)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
"""
"""Six ranks that wait for each other in every step; one works twice as long."""


def test_a_slow_rank_fails_a_gate(ground: Any) -> None:
    """`--stragglers` names the spans, nothing else is changed. All forms of the report have the sentence."""
    program = ground.program("job.py", JOB)
    flags = ["--name", "job", "--stragglers", "all_reduce", "--gate", "straggler() < 20%"]
    code, _, err = ground.run("run", *flags, "--", sys.executable, program, "4")
    assert code == 99, err
    assert "fail: straggler() < 20%" in err
    assert "rank 4 costs " in err
    assert "complete: job" in err
    [found] = json.loads(ground.run("report", "latest", "--format", "json")[1])["stragglers"]
    assert (found["axis"], found["ranks"]) == ("step", 6)
    [slow] = found["slow"]
    assert (slow["rank"], slow["now"], slow["always"]) == (4, True, True)
    assert 0.02 < slow["cost_s"] < 0.06
    assert 0.5 < slow["excess"] < 1.5
    (verdicts,) = (ground.folder / "runs").glob("job-*/stragglers.json")
    verdicts.unlink()
    [again] = json.loads(ground.run("report", "latest", "--format", "json")[1])["stragglers"]
    assert again == found
    assert 'class="heat"' in ground.run("report", "latest", "--format", "html")[1]
    assert ground.run("gate", "latest", "straggler.cost() < 1s", "straggler < 100%")[0] == 0


def test_without_a_slow_rank_the_gate_passes(ground: Any) -> None:
    """The gate passes without a slow rank, and cannot tell without the flag `--stragglers`."""
    program = ground.program("job.py", JOB)
    flags = ["--name", "job", "--gate", "straggler() < 20%"]
    code, _, err = ground.run("run", *flags, "--stragglers", "all_*", "--", sys.executable, program, "-1")
    assert code == 0, err
    assert "axis step: 148 steps of 6 ranks" in err
    code, _, err = ground.run("run", *flags, "--", sys.executable, program, "-1")
    assert (code, "no steps with work and wait" in err) == (3, True), err


LOG = """
import sys, telemetry
run = telemetry.start("rank")
run.stragglers(work="compute_ms", wait="sync_ms")
for step in range(400):
    slow = sys.argv[1] == "2"
    run.log({"compute_ms": 200.0 if slow else 100.0, "sync_ms": 1.0 if slow else 101.0}, step=step)
    run.end_step(step)
run.finish()
"""
"""A rank that logs work and wait itself."""


def test_the_cockpit_sees_slow_ranks_of_another_machine(ground: Any) -> None:
    """The cockpit sees slow ranks of another machine through the aggregator alone.

    Steps before the cockpit looked count as well.
    """
    aggregator, endpoint = ground.serve()
    program = ground.program("log.py", LOG)
    ranks = [
        ground.popen(
            sys.executable, program, str(rank), environ={"TELEMETRY_ENDPOINT": endpoint, "RANK": str(rank)}
        )
        for rank in range(3)
    ]
    assert [rank.wait(60) for rank in ranks] == [0, 0, 0], ranks[0].communicate()
    told: list[StragglersOf] = []

    def tell(news: News) -> None:
        if isinstance(news, StragglersOf):
            told.append(news)

    thread = StepsThread(tell, lambda _: ControlRecords(endpoint))
    thread.start()
    try:
        deadline = time.monotonic() + 60.0
        while not (told and told[-1].found[0].steps == 400):
            assert time.monotonic() < deadline, told
            with ControlClient(endpoint) as client:
                answer = client.request(GetStatus())
            assert isinstance(answer, Status)
            thread.saw(answer.snapshot)
            time.sleep(0.05)
    finally:
        thread.close()
    [found] = told[-1].found
    assert found.ranks == 3
    assert [slow.rank for slow in found.slow] == [2]
    assert abs(found.slow[0].cost_s - 0.1) < 1e-6
    aggregator.terminate()
    aggregator.communicate(timeout=60)
