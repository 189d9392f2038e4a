"""Forks in the middle of recording."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import pytest

PROGRAM = """
import json, multiprocessing, random, sys, threading, time, warnings
import telemetry

warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what this is about
chance = random.Random(sys.argv[1])
run = telemetry.start("forks")
shared = run.counter("shared").add
over = threading.Event()
sent = [0, 0]

def keep_recording(thread):
    record = run.series("value", unit="1", who=f"thread{thread}").record
    number = 0
    while not over.is_set():
        record(number)
        shared()
        number += 1
        if not number % 20:
            time.sleep(0.001)
    sent[thread] = number

def child(who, events):
    record = run.series("value", unit="1", who=who).record
    for number in range(events):
        record(number)
        shared()

threads = [threading.Thread(target=keep_recording, args=(thread,)) for thread in range(2)]
for thread in threads:
    thread.start()
context = multiprocessing.get_context("fork")
events = {f"child{number}": chance.randint(1, 3_000) for number in range(12)}
children = []
for who, many in events.items():
    time.sleep(chance.uniform(0.0, 0.02))
    children.append(context.Process(target=child, args=(who, many)))
    children[-1].start()
for one in children:
    one.join()
    assert one.exitcode == 0, one
over.set()
for thread in threads:
    thread.join()
run.finish()
print(json.dumps(events | {f"thread{thread}": many for thread, many in enumerate(sent)}))
"""


@pytest.mark.parametrize("policy", ["drop", "block"])
def test_forks_beside_threads_that_record(ground: Any, faults: Any, chance: random.Random, policy: str) -> None:
    """The values of the parent's threads and of each child are in the result once, after any fork."""
    environ = {"TELEMETRY_EMIT__POLICY": policy}
    parent = ground.popen(
        sys.executable, ground.program("forks.py", PROGRAM), str(chance.random()), environ=environ
    )
    out, err = parent.communicate(timeout=60)
    assert parent.returncode == 0, err
    sent = json.loads(out)
    final = ground.final()
    faults.check_books(final)
    assert {who: faults.first_values(final, who) for who in sent} == sent
    assert [one["value"] for one in final["counters"]] == [sum(sent.values())]
    assert (final["completeness"], len(final["producers"])) == ("complete", 13)
