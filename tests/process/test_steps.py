"""Steps of ranks that are real processes, when one of them dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.process.conftest import DEADLINE_S, Ground
from tests.processes import KILLED

from telemetry.wire.events import Spread

pytestmark = pytest.mark.slow

RANKS = 3
VICTIM = 2
JOB = f"""
import multiprocessing, os, pathlib, time, telemetry

def log_steps(rank):
    os.environ["RANK"] = str(rank)
    with telemetry.start("ranks") as run:
        run.axis("train", reductions={{"tokens": "sum"}})
        pathlib.Path(f"here{{rank}}").write_text(str(os.getpid()))
        while not all(os.path.exists(f"here{{other}}") for other in range({RANKS})):
            time.sleep(0.005)
        step = 0
        while not (os.path.exists("last") and step > int(pathlib.Path("last").read_text())):
            run.log({{"loss": step + rank, "tokens": 10}}, step=step, axis="train")
            step += 1
            time.sleep(0.005)

ranks = [multiprocessing.get_context("fork").Process(target=log_steps, args=(rank,)) for rank in range({RANKS})]
for rank in ranks:
    rank.start()
for rank in ranks:
    rank.join()
assert [rank.exitcode for rank in ranks] == [0, 0, -9]
"""


class Ranks(Ground):
    """A ground whose ranks log the same steps until a file names the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.environ["TELEMETRY_RUN__STEP_GRACE_S"] = "1"
        self.job = self.telemetry("run", "--quiet", "--", sys.executable, self.program("job.py", JOB))

    def close(self) -> None:
        self.end_at(-1)  # ranks that go on hold the streams of the command that ran them
        super().close()

    def pid(self, rank: int) -> int:
        return int((self.folder / f"here{rank}").read_text())

    def end_at(self, step: int) -> None:
        self.program("soon", str(step))
        (self.folder / "soon").rename(self.folder / "last")

    def said(self) -> list[dict[str, Any]]:
        """Steps on the record stream so far, in its order."""
        try:
            lines = Path(self.folder / "runs/latest/records/records.jsonl").read_text().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        records = [json.loads(line) for line in lines if line.endswith("\n")]
        return [record for record in records if record.get("type") == "step"]

    def wait_for(self, steps: int, producers: int) -> int:
        """Wait for the given number of steps of so many producers, and return the newest step."""
        deadline = time.monotonic() + DEADLINE_S
        while len(found := [step["step"] for step in self.said() if step["producers"] == producers]) < steps:
            assert time.monotonic() < deadline, (self.said()[-1:], self.job.poll())
            time.sleep(0.02)
        return int(found[-1])


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    made = Ranks()
    yield made
    made.close()


def test_steps_go_on_without_a_rank_that_is_killed(ranks: Ranks) -> None:
    """Steps after the grace are steps of the ranks that live, and none is left out.

    Each has its mean, its sum and its spread.
    """
    ranks.wait_for(20, producers=RANKS)
    os.kill(ranks.pid(VICTIM), signal.SIGKILL)
    last = ranks.wait_for(20, producers=RANKS - 1) + 50
    ranks.end_at(last)
    try:
        _, err = ranks.job.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        pytest.fail("the run does not end")
    assert ranks.job.returncode == 0, err

    final = ranks.final()
    key = {stat["rank"]: stat["producer"] for stat in final["producers"]}
    living = [stat for stat in final["producers"] if stat["rank"] != VICTIM]
    assert [(stat["completeness"], stat["applied"] - stat["emitted"]) for stat in living] == [("complete", 0)] * 2
    said = ranks.said()
    first = [step["step"] for step in said if not step["revision"]]
    assert first[: last + 1] == list(range(last + 1))
    assert first == sorted(set(first))
    newest = {step["step"]: step for step in said}
    together = sum(newest[step]["producers"] == RANKS for step in range(last + 1))
    assert together >= 20
    assert {newest[step]["closed"] for step in range(last - 10, last + 1)} == {"ended"}, "it is not waited for"
    for step in range(last + 1):
        count = RANKS if step < together else RANKS - 1
        mean = step + (count - 1) / 2
        assert newest[step]["producers"] == count
        assert newest[step]["values"] == {"loss": mean, "tokens": 10.0 * count}
        spread = Spread(count, float(step), step + count - 1.0, mean, key[0], key[count - 1])
        assert newest[step]["spread"]["loss"] == msgspec.to_builtins(spread)
    (axis,) = final["axes"]
    assert (axis["open"], axis["closed"]) == (0, len(first))
    if KILLED == "incomplete":  # else its end is known sooner than the grace is over
        assert axis["timeouts"] > 0
