"""Good requests and the request log of real runs, worked out again from what the programs wrote down.

The judge here is plain Python with fractions; the package is only asked to read its request log.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.process.conftest import Ground
from tests.process.request_truth import log_lines
from tokenizers import Tokenizer

from telemetry.history import request_log
from telemetry.history.request_log import LoggedRequest
from telemetry.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow
MS = 10**6
LIMITS = {"ttft": 200 * MS, "tpot": 50 * MS, "e2el": 1_000 * MS, "gap": 150 * MS, "corrected": 1_100 * MS}
GOODPUT = ["ttft:200", "tpot:50", "e2el:1s", "gap:150ms", "chat=corrected:1100"]

PROGRAM = """
import json, random, sys, telemetry, time

MS = 10**6
TIES = [0, 200, 50, 1_000, 150, 1_100]  # at the limits, one nanosecond below and beyond
chance = random.Random(7)
run = telemetry.start("judged")
chat = run.requests("chat", slo="ttft:1", expire_s=0.2)  # the command line has another limit
begin = time.monotonic_ns() + 10**9

def at(ms):
    return ms * MS + chance.choice([-1, 0, 0, 0, 1])

with open(sys.argv[1], "w") as log:
    for number in range(400):
        issued = begin + number * MS
        line = {"issued": issued, "planned": None, "pieces": [], "reason": None, "output": None, "own": ""}
        if number % 3 == 0:
            line["planned"] = issued - at(100)
        if number % 10 == 0:
            line["own"] = "ttft:1s" if number % 20 else "tps:10 gap:1s"
        line["window"] = "measured" if number >= 200 else ""
        with run.tracking("measured") if line["window"] else telemetry_nothing() as _:
            request = chat.issue(at_ns=issued, planned=line["planned"], slo=line["own"] or None)
        moment = issued + chance.choice([at(200), chance.randrange(1, 300 * MS)])
        for piece in range(chance.randrange(0, 6)):
            tokens = 1 if piece % 2 else chance.choice([1, 3, None])
            line["pieces"].append([request.chunk(tokens, at_ns=moment), tokens])
            moment += chance.choice([at(150), at(50), chance.randrange(1, 160 * MS)])
        line["ended"] = chance.choice([issued + at(1_000), moment, moment])
        if line["pieces"]:
            first, tokens = line["pieces"][0]
            later = sum(tokens or 1 for _, tokens in line["pieces"][1:])
            if later and chance.random() < 0.4:
                line["ended"] = first + later * 50 * MS + chance.choice([-1, 0, 0, 1])
            line["ended"] = max(line["ended"], line["pieces"][-1][0])
        if chance.random() < 0.2:
            line["output"] = chance.choice([0, 1, 2, 7, 2.5])
        if number % 17 == 5:
            line["reason"] = "expired"
        elif number % 13 == 4:
            line["reason"] = "busy"
            request.fail("busy", at_ns=line["ended"])
        else:
            request.complete(output_tokens=line["output"], at_ns=line["ended"])
        log.write(json.dumps(line) + "\\n")
deadline = time.monotonic() + 30
while chat.in_flight and time.monotonic() < deadline:
    time.sleep(0.01)
run.finish()
"""


def limits_of(line: dict[str, Any]) -> dict[str, int]:
    own = {"": {}, "ttft:1s": {"ttft": 1_000 * MS}, "tps:10 gap:1s": {"tpot": 100 * MS, "gap": 1_000 * MS}}
    return LIMITS | own[line["own"]]


def met(line: dict[str, Any]) -> set[str]:
    """The limits that a completed request is within."""
    times = [moment for moment, _ in line["pieces"]]
    tokens = [count for _, count in line["pieces"]]
    output = line["output"]
    if output is None and times and None not in tokens:
        output = sum(tokens)
    due = line["issued"] if line["planned"] is None else min(line["planned"], line["issued"])
    measured: dict[str, Fraction | float] = {
        "ttft": times[0] - line["issued"] if times else math.inf,
        "e2el": line["ended"] - line["issued"],
        "corrected": line["ended"] - due,
        "gap": max((after - before for before, after in pairwise(times)), default=0),
        "tpot": 0,
    }
    if times and output is None:
        measured["tpot"] = math.inf if len(times) > 1 else 0
    elif times and (later := Fraction(output) - (1 if tokens[0] is None else tokens[0])) > 0:
        measured["tpot"] = (line["ended"] - times[0]) / later
    return {key for key, limit in limits_of(line).items() if measured[key] <= limit}


def expected(lines: Iterable[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """Good requests by window and key; those of all limits together have the key `good`."""
    found: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if line["reason"] is None:
            keys = met(line)
            found.update((line["window"], key) for key in keys)
            found[line["window"], "good"] += keys == limits_of(line).keys()
    return +found


def counted(final: dict[str, Any]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for stat in final["counters"]:
        word = stat["name"].partition(".")[2]
        if word in ("good", "met"):
            found[stat["labels"].get("window", ""), stat["labels"].get("slo", word)] += stat["value"]
    return +found


def logged(ground: Ground) -> list[LoggedRequest]:
    return list(request_log.read(RunDirectory(ground.folder / "runs" / "latest")))


@pytest.fixture(scope="module")
def judged() -> Any:
    ground = Ground()
    program = ground.program(
        "judged.py", PROGRAM.replace("telemetry_nothing", "__import__('contextlib').nullcontext")
    )
    log = str(ground.folder / "log.jsonl")
    code, _, err = ground.run("run", "--name", "judged", "--goodput", *GOODPUT, "--", sys.executable, program, log)
    assert code == 0, err
    yield ground
    ground.close()


def test_good_requests_are_those_of_the_log(judged: Ground) -> None:
    """The good requests are those of the log, in each window, for each limit, and exactly at a limit."""
    lines = log_lines(judged.folder / "log.jsonl")
    final = judged.final()
    assert (final["completeness"], len(lines)) == ("complete", 400)
    assert counted(final) == expected(lines)
    ties = [line for line in lines if line["pieces"] and line["pieces"][0][0] - line["issued"] == 200 * MS]
    assert len(ties) > 20
    assert final["params"]["slo.chat"] == "ttft:200ms tpot:50ms e2el:1s gap:150ms corrected:1.1s"


def test_the_report_has_the_share_of_all_that_ended(judged: Ground) -> None:
    """The report has the share of all requests that ended, with its interval.

    Failed and expired requests count as not good.
    """
    code, out, err = judged.run("report", "latest", "--format", "json")
    assert code == 0, err
    (chat,) = json.loads(out)["requests"]
    good = expected(log_lines(judged.folder / "log.jsonl"))
    assert chat["good"] == good["", "good"] + good["measured", "good"]
    assert chat["attainment"] == pytest.approx(chat["good"] / 400)
    share, spread = chat["attainment"], 1.959963984540054**2 / 400
    reach = 1.959963984540054 * math.sqrt(share * (1 - share) / 400 + spread / 1_600)
    bounds = ((share + spread / 2 - reach) / (1 + spread), (share + spread / 2 + reach) / (1 + spread))
    assert (chat["attainment_low"], chat["attainment_high"]) == pytest.approx(bounds)
    assert chat["goodput_per_s"] == pytest.approx(
        chat["good"] * chat["rates"]["overall"]["requests_per_s"] / chat["completed"]
    )
    assert [part["good"] for part in chat["windows"]] == [good["", "good"], good["measured", "good"]]


def test_the_request_log_has_what_the_program_wrote(judged: Ground) -> None:
    """Every request, with its times, chunks, tokens and limits."""
    found = {one.entry.issued_ns: one for one in logged(judged)}
    lines = log_lines(judged.folder / "log.jsonl")
    assert found.keys() == {line["issued"] for line in lines}
    for line in lines:
        one = found[line["issued"]]
        entry, times = one.entry, [moment for moment, _ in line["pieces"]]
        assert (one.kind, one.labels.get("window", "")) == ("chat", line["window"])
        outcome = "completed" if line["reason"] is None else "expired" if line["reason"] == "expired" else "failed"
        assert (entry.outcome, entry.planned_ns, entry.slo != {}) == (outcome, line["planned"], bool(line["own"]))
        if outcome != "expired":
            assert entry.ended_ns == line["ended"]
        assert entry.first_ns == (times[0] if times else None)
        assert entry.gaps_ns == [after - before for before, after in pairwise(times)]
        told = [count for _, count in line["pieces"]]
        assert ([entry.first_tokens, *(entry.chunk_tokens or [1] * len(entry.gaps_ns))] if told else []) == told


def test_peaks_are_exact_with_a_whole_request_log(judged: Ground) -> None:
    """Requests in flight, counted here at every issue."""
    code, out, err = judged.run("report", "latest", "--format", "json")
    assert code == 0, err
    (chat,) = json.loads(out)["requests"]
    spans = [(one.entry.issued_ns, one.entry.ended_ns) for one in logged(judged)]
    peak = max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)
    assert (chat["concurrency_peak"], chat["concurrency_peak_exact"]) == (peak, True)


@pytest.mark.parametrize("words", [["ttft:200", "tpo:50"], ["ttft"], ["tpot=50"]])
def test_limits_that_cannot_be_read_end_it_before_the_command(ground: Ground, words: list[str]) -> None:
    """Limits that can't be read end the run before the command.

    They come from the command line or from the environment.
    """
    command = ["--", sys.executable, "-c", "open('started', 'w')"]
    for options, environ in ((["--goodput", *words], {}), ([], {"TELEMETRY_GOODPUT": " ".join(words)})):
        code, _, err = ground.run("run", *options, *command, environ=environ)
        assert (code, (ground.folder / "started").exists()) == (2, False)
        assert err.startswith("telemetry: --goodput: " if options else "telemetry: TELEMETRY_GOODPUT: ")


TEXTS = """
import json, sys, telemetry, time
run = telemetry.start("texts")
chat = run.requests("chat")
begin = time.monotonic_ns()
for number in range(300):
    text = "to be or not to be " * (1 + number % 7)
    request = chat.issue(input_text="question", at_ns=begin)
    request.first(at_ns=begin + (150 + number % 2 * 100) * 10**6)
    request.chunk(None, at_ns=begin + 260 * 10**6)
    request.complete(output_text=text, at_ns=begin + (270 + number) * 10**6)
run.finish()
"""


def test_texts_are_judged_by_the_tokens_that_are_counted(ground: Ground, tokenizer_file: Path) -> None:
    """The counters come later than the requests, and agree with the tokens of the request log."""
    command = ["--", sys.executable, ground.program("texts.py", TEXTS)]
    limits = ["--goodput", "ttft:200", "tpot:8"]
    code, _, err = ground.run("run", "--tokenizer", str(tokenizer_file), *limits, *command)
    assert code == 0, err
    found, tokenizer = Counter[str](), Tokenizer.from_file(str(tokenizer_file))
    for number, one in enumerate(sorted(logged(ground), key=lambda one: one.entry.number)):
        entry = one.entry
        encoded = tokenizer.encode("to be or not to be " * (1 + number % 7), add_special_tokens=False)
        asked = tokenizer.encode("question", add_special_tokens=False)
        assert (entry.output_tokens, entry.input_tokens) == (len(encoded.ids), len(asked.ids))
        assert entry.first_ns is not None
        keys = {"ttft"} if entry.first_ns - entry.issued_ns <= 200 * MS else set()
        if entry.ended_ns - entry.first_ns <= 8 * MS * (len(encoded.ids) - 1):
            keys.add("tpot")
        found.update(keys)
        found["good"] += len(keys) == 2
    assert counted(ground.final()) == Counter({("", key): number for key, number in found.items()})
    assert 0 < found["good"] < found["tpot"] < 300


FORKING = """
import os, telemetry
run = telemetry.start("forking")
chat = run.requests("chat", slo="e2el:1000")
for _ in range(40):
    chat.issue().complete()
if not (child := os.fork()):
    for _ in range(70):
        chat.issue().complete()
    os._exit(0 if run.finish().completeness else 1)
os.waitpid(child, 0)
chat.issue().complete()
print(run.finish().completeness)
"""


def test_a_forked_child_logs_its_own_requests(ground: Ground) -> None:
    """Each process once, as producers of their own."""
    code, out, err = ground.run("run", "--", sys.executable, ground.program("forking.py", FORKING))
    assert code == 0, err
    assert sorted(Counter(one.producer for one in logged(ground)).values()) == [41, 70], out
    assert [stat["value"] for stat in ground.final()["counters"] if stat["name"] == "chat.good"] == [111]


BLOCKING = """
import telemetry
run = telemetry.start("blocking", policy="block", buffer_events=1_000)
chat = run.requests("chat")
for _ in range(20_000):
    request = chat.issue()
    request.chunk()
    request.chunk(2)
    request.complete()
run.finish()
"""


@pytest.mark.parametrize("wanted", [True, False])
def test_the_log_is_whole_if_callers_wait(ground: Ground, wanted: bool) -> None:
    """The log has every request if callers wait. Without the setting there is no log."""
    environ = {"TELEMETRY_EMIT__REQUEST_LOG": str(wanted).lower()}
    program = ground.program("blocking.py", BLOCKING)
    code, _, err = ground.run("run", "--", sys.executable, program, environ=environ)
    assert code == 0, err
    assert ground.final()["completeness"] == "complete"
    facts = request_log.facts(RunDirectory(ground.folder / "runs" / "latest"))
    if not wanted:
        assert facts is None
        return
    assert facts is not None
    assert (facts.kept, facts.left_out) == (20_000, 0)
    assert len(logged(ground)) == 20_000


OLD = """
import telemetry
run = telemetry.start("old")
issued = run.counter("chat.issued", unit="requests")
gap = run.series("chat.chunk_gap", unit="ns")
for number in range(1, 6):
    issued.add(1)
    gap.record(number * 1_000_000)
run.finish()
"""


def test_chunk_gaps_of_an_older_producer_are_shown_as_itl(ground: Ground) -> None:
    """Chunk gaps of an older producer are shown as `itl`, and can be gated by both names."""
    gates = [word for name in ("itl", "chunk_gap") for word in ("--gate", f"max(chat.{name}) < 6ms")]
    code, _, err = ground.run("run", *gates, "--", sys.executable, ground.program("old.py", OLD))
    assert code == 0, err
    assert any(line.split()[0] == "itl" for line in err.splitlines() if line.strip())
