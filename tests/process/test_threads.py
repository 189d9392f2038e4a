"""Many threads of one program, with a real aggregator. On a free-threaded Python they run at the same time."""

from __future__ import annotations

import json
import sys

from tests.process.conftest import DEADLINE_S, Ground

THREADS, TURNS = 6, 2_000
PROGRAM = f"""
import sys, threading
import telemetry

sys.setswitchinterval(1e-5)
is_locked = getattr(sys, "_is_gil_enabled", lambda: True)
was_locked, barrier = is_locked(), threading.Barrier({THREADS})

def work(run, number):
    count, latency, kind = run.counter("count"), run.series("latency"), run.requests("llm", expire_s=600)
    barrier.wait()
    for turn in range({TURNS}):
        count.add()
        latency.record(float(turn))
        run.counter("own", thread=number, part=turn % 100).add()
        with run.span("block"):
            run.log({{"loss": 1.0}}, step=turn, axis=f"axis{{number}}")
        request = kind.issue(key=(number, turn), conversation=(number, turn // 10))
        request.first()
        kind.find((number, turn)).chunk(2)
        request.fail("odd") if turn % 2 else request.complete()
        if turn % 10 == 0:
            latency.record("no number")
            run.mark("tenth")

with telemetry.start("threads") as run:
    threads = [threading.Thread(target=work, args=(run, number)) for number in range({THREADS})]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert is_locked() == was_locked
"""


def test_what_many_threads_record_is_counted_to_the_event(ground: Ground) -> None:
    """Rows, records and requests, while the sending thread takes them. The program's stderr is empty."""
    quiet = {"PYTHONWARNINGS": "error", "TELEMETRY_EMIT__QUIET": "true", "TELEMETRY_EMIT__POLICY": "block"}
    program = ground.popen(sys.executable, ground.program("threads.py", PROGRAM), environ=quiet)
    out, said = program.communicate(timeout=DEADLINE_S)
    assert (program.returncode, out, said) == (0, "", "")
    code, out, said = ground.run("report", "--format", "json")
    assert code == 0, said
    report = json.loads(out)
    calls = THREADS * TURNS
    counts = {stat["name"]: 0.0 for stat in report["counters"]}
    for stat in report["counters"]:
        counts[stat["name"]] += stat["value"]
    values = {stat["name"]: stat["count"] for stat in report["series"] if not stat["labels"]}
    assert (counts["count"], counts["own"], counts["llm.issued"]) == (calls, calls, calls)
    assert (counts["llm.completed"], counts["llm.failed"]) == (calls / 2, calls / 2)
    assert (values["latency"], values["span.block"], values["llm.ttft"]) == (calls, calls, calls / 2)
    assert values["llm.conversation.turns"] == calls / 10
    account = report["accounting"]
    assert account["dropped_by_producer"] == {"not_a_number": calls / 10}
    assert (account["applied"], account["dropped"]) == (account["emitted"] - calls / 10, {})
