"""The programs of docs/REQUESTS.md run as they stand there, and what the documents say of values is so."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from telemetry import limits

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "REQUESTS.md").read_text()
WRITTEN = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
BLOCKS = [block for block in WRITTEN if "open_run" not in block]
READERS = [block for block in WRITTEN if "open_run" in block]
"""Programs that read a run which has ended."""
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
    """The report of the first program has what the page says is recorded."""
    program = ground.program("first.py", BEFORE + BLOCKS[0])
    code, _, err = ground.run("run", "--name", "load", "--", sys.executable, program)
    assert code == 0, err
    final = ground.final()
    counted = {"chat.issued": 2, "chat.completed": 2, "chat.failed": 0, "chat.expired": 0}
    assert {stat["name"]: stat["value"] for stat in final["counters"]} == counted
    assert all(stat["labels"]["model"] == "m-7b" for stat in (*final["counters"], *final["series"]))
    series = {stat["name"].removeprefix("chat."): stat for stat in final["series"]}
    assert set(series) == {"latency", "ttft", "itl", "tpot", "input_tokens", "output_tokens"}
    assert (series["output_tokens"]["total"], series["input_tokens"]["total"]) == (10, 4)
    assert READERS
    for number, block in enumerate(READERS):
        reader = ground.popen(sys.executable, ground.program(f"reader_{number}.py", block))
        assert (reader.communicate(timeout=60), reader.returncode) == (("", ""), 0)


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
    assert (totals["chat.conversation.turns"], totals["chat.output_tokens"]) == (2, 5 + 1 + 7)
    assert [stat["value"] for stat in final["counters"] if stat["name"] == "chat.after_end"] == [1]


VALUES = """
import json, sys, telemetry
from decimal import Decimal
from numpy import array

run = telemetry.start("load")
for number, value in enumerate(json.loads(sys.argv[1])):
    value = eval(value)
    run.counter(f"counter.{number}").add(value)
    run.gauge(f"gauge.{number}").set(value)
    run.series(f"series.{number}").record(value)
    run.requests(f"tokens.{number}").issue().complete(output_tokens=value)
run.finish()
"""

WRONG = """
import time, telemetry
run = telemetry.start("load")
chat = run.requests("chat")
for _ in range(2):
    chat.issue().complete(output_text="x" * 262_145)
    chat.issue(planned=time.monotonic()).complete()
    chat.issue().fail("")
    assert not chat.enough
run.tracking("warm-up")
chat.issue().complete(output_tokens=2.5)
first, second = (chat.issue(conversation="c", at_ns=at) for at in (10, 20))
second.complete(at_ns=95)
first.complete(at_ns=60)
chat.end_conversation("c", at_ns=100)
run.finish()
"""


def test_what_is_done_with_values(ground: Any) -> None:
    """Each row of the table in METRICS.md, by a run that records these values."""
    table = (DOCS / "METRICS.md").read_text().partition("| value | counter |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    cells = [(value, fates) for values, *fates in rows for value in re.findall(r"`([^`]+)`", values)]
    assert len(cells) > 15
    program = ground.program("values.py", VALUES)
    words = json.dumps([value for value, _ in cells])
    code, _, err = ground.run("run", "--name", "load", "--", sys.executable, program, words)
    assert code == 0, err
    final = ground.final()
    kept = {stat["name"] for stat in final["counters"] if stat["value"] not in (0, None)}
    kept |= {stat["name"] for stat in final["gauges"] if stat["value"] is not None}
    kept |= {stat["name"].removesuffix(".output_tokens") for stat in final["series"] if stat["count"]}
    lost: Counter[str] = Counter()
    for number, (value, fates) in enumerate(cells):
        for kind, fate in zip(("counter", "gauge", "series", "tokens"), fates, strict=True):
            seen = f"{kind}.{number}" in kept or (kind == "counter" and value in ("0", "-0.0"))
            assert seen == (fate == "kept"), (value, kind, fate)
            lost.update(re.findall(r"`(\w+)`", fate))
    account = Counter[str]()
    for producer in final["producers"]:
        account.update(producer["dropped"])
        account.update(producer["dropped_by_producer"])
    assert account == lost


def test_wrong_usage_says_what_it_is(ground: Any) -> None:
    """Each once, on stderr, and the numbers are as the page says."""
    program = ground.program("wrong.py", WRONG)
    code, _, err = ground.run("run", "--name", "load", "--", sys.executable, program)
    assert code == 0, err
    for sentence in (
        "chat.output_tokens can't count the tokens of a text: the text is too long",
        "`enough` of the requests 'chat' is never true",
        "the tracking window 'warm-up' was never entered",
        "`planned` of a request of 'chat' is not a time",
    ):
        assert err.count(sentence) == 1, err
    final = ground.final()
    counted = {(stat["name"], *stat["labels"].values()): stat["value"] for stat in final["counters"]}
    assert counted["chat.failed", "error"] == 2
    stats = {stat["name"]: stat for stat in final["series"]}
    assert stats["chat.conversation.duration"]["max"] == 85
    assert stats["chat.output_tokens"]["total"] == 2.5
    [dropped] = [producer["dropped_by_producer"] for producer in final["producers"]]
    assert dropped == {"unencodable": 2, "not_a_number": 2}


def test_the_length_of_a_text_is_that_of_the_code() -> None:
    """Wherever it is written."""
    for name in ("REQUESTS.md", "TOKENS.md"):
        assert f"at most {limits.UNCOUNTED_CHARS:,} characters" in " ".join((DOCS / name).read_text().split())
