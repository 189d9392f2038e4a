"""The programs of docs/REQUESTS.md run as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TEXT = (Path(__file__).parents[2] / "docs" / "REQUESTS.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
BEFORE = """
import asyncio, time, telemetry

prompts = questions = ["one two three", "four"]

def answer(prompt):
    yield from ["yes", "no or maybe", "no"]

async def stream(prompt):
    for piece in answer(prompt):
        yield piece

def send(prompts, seconds):
    for number in range(70 * seconds):
        chat.issue().complete()
    time.sleep(0.05)
"""
JOINED = """
run = telemetry.start("load")
chat = run.requests("chat")
"""
CALLS = """
asyncio.run(ask("one two three"))
on_send("a")
on_done("a", 7)
on_done("b", 7)
run.finish()
"""


def test_the_first_program(ground: Any) -> None:
    """Its report has what the page says is recorded."""
    program = ground.program("first.py", BEFORE + BLOCKS[0])
    code, _, err = ground.run("run", "--name", "load", "--", sys.executable, program)
    assert code == 0, err
    final = ground.final()
    counted = {"chat.issued": 2, "chat.completed": 2, "chat.failed": 0, "chat.expired": 0}
    assert {stat["name"]: stat["value"] for stat in final["counters"]} == counted
    assert all(stat["labels"]["model"] == "m-7b" for stat in (*final["counters"], *final["series"]))
    series = {stat["name"].removeprefix("chat."): stat for stat in final["series"]}
    assert set(series) == {"latency", "ttft", "chunk_gap", "tpot", "input_tokens", "output_tokens"}
    assert (series["output_tokens"]["total"], series["input_tokens"]["total"]) == (10, 4)


def test_all_the_others_together(ground: Any) -> None:
    """One after another in one process, with the calls that they only define."""
    program = ground.program("rest.py", BEFORE + JOINED + "\n".join(BLOCKS[1:]) + CALLS)
    code, out, err = ground.run("run", "--name", "load", "--", sys.executable, program)
    assert code == 0, err
    assert "needed=662, missing=0, known=True" in out
    final = ground.final()
    windows = {stat["labels"].get("window") for stat in final["series"] if stat["name"] == "chat.latency"}
    assert windows == {None, "warm-up", "measured"}
    totals = {stat["name"]: stat["total"] for stat in final["series"] if not stat["labels"]}
    assert (totals["chat.conversation.turns"], totals["chat.output_tokens"]) == (2, 5 + 7)
    assert [stat["value"] for stat in final["counters"] if stat["name"] == "chat.after_end"] == [1]
