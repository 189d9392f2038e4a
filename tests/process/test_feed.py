"""Tests of what an endpoints benchmark publishes.

It passes through real sockets into a run by `telemetry feed`, `serve` and `run`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zmq
from tests.unit.integrations.endpoints import bus

from telemetry.config.schema import PERCENTILES
from telemetry.integrations.endpoints import decode
from telemetry.integrations.feeds import with_percentiles
from telemetry.wire.feeds import ENDPOINTS_PERCENTILES

if TYPE_CHECKING:
    from tests.process.conftest import Ground

pytestmark = pytest.mark.slow

WaitUntil = Callable[..., Any]
DEADLINE_S = 60.0
SOON = {"TELEMETRY_RUN__ORPHAN_GRACE_S": "0.2"}
MS = 1_000_000

NATIVE = """
import sys, telemetry
base = int(sys.argv[1])
with telemetry.start("native") as run:
    requests = run.requests("request")
    def at(ms): return base + ms * 1_000_000
    warm = requests.issue(key="warm", input_tokens=5, at_ns=at(0))
    warm.complete(at_ns=at(7))
    requests.find("nobody").complete(at_ns=at(8))
    with run.tracking("tracked"):
        streamed = requests.issue(key="s", input_tokens=3, conversation="c", turn=1, at_ns=at(10))
        failed = requests.issue(key="f", at_ns=at(11))
        lost = requests.issue(key="l", at_ns=at(12))
        streamed.first(None, at_ns=at(20))
        for number in range(1, 30):
            streamed.chunk(None, at_ns=at(20 + 3 * number))
        failed.first(None, at_ns=at(25))
        failed.fail("ReadTimeout", at_ns=at(90))
        alone = requests.issue(key="a", at_ns=at(91))
        alone.fail("client", at_ns=at(95))
    late = requests.issue(key="late", conversation="c", at_ns=at(110))
    streamed.complete(finish_reason="stop", at_ns=at(120))
    late.complete(finish_reason="length", at_ns=at(130))
"""


def scenario(base: int) -> list[bytes]:
    """The same as NATIVE, as a benchmark would send it: alone, in batches, and with what is no event between."""

    def event(kind: str, ms: int, *words: Any, **more: Any) -> bytes:
        return bus.event(kind, base + ms * MS, *words, **more)

    chunks = [event(decode.CHUNK, 20 + 3 * number, "s") for number in range(1, 30)]
    failure = bus.error("ReadTimeout", "nothing for 60 s")
    return [
        bus.single(decode.STARTED, base),
        bus.single(decode.ISSUED, base, "warm", bus.prompt(ids=[1, 2, 3, 4, 5])),
        b"noise",
        bus.batch(
            [
                event(decode.COMPLETE, 7, "warm", bus.output("hello")),
                event(decode.COMPLETE, 8, "nobody"),
                event(decode.TRACKING_BEGINS, 9),
                event(decode.ISSUED, 10, "s", bus.prompt("text", [7, 8, 9]), conversation="c", turn=1),
                event(decode.ISSUED, 11, "f", bus.prompt("text")),
                event(decode.ISSUED, 11, "f", bus.prompt("text")),
                event(decode.ISSUED, 12, "l"),
                event(decode.FIRST, 20, "s"),
                b"\xc1",
                *chunks[:10],
            ]
        ),
        bus.batch([*chunks[10:], event(decode.FIRST, 25, "f"), event("error.client", 90, "f", failure)]),
        bus.batch(
            [
                event(decode.COMPLETE, 90, "f"),
                event(decode.ISSUED, 91, "a"),
                event("error.client", 95, "a"),
                event(decode.TRACKING_ENDS, 96),
                event(decode.ISSUED, 110, "late", conversation="c"),
                event(decode.COMPLETE, 120, "s", bus.output("x", "y"), finish_reason="stop", worker_id=3),
                event(decode.COMPLETE, 130, "late", finish_reason="length"),
            ]
        ),
        bus.single(decode.ENDED, base + 140 * MS),
    ]


class Benchmark:
    """The PUB socket of a benchmark."""

    def __init__(self, folder: Path) -> None:
        self.address = f"ipc://{folder}/p"
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.bind(self.address)

    def await_subscriber(self) -> None:
        assert self._socket.poll(DEADLINE_S * 1_000), "nobody subscribed"
        self._socket.recv()

    def send(self, *messages: bytes) -> None:
        for message in messages:
            self._socket.send(message)

    def close(self) -> None:
        self._context.destroy(1_000)


@pytest.fixture
def benchmark(short_dir: Path) -> Iterator[Benchmark]:
    made = Benchmark(short_dir)
    yield made
    made.close()


def figures(final: dict[str, Any]) -> dict[str, Any]:
    """All that is known of the requests of a run, but for when they were."""
    found: dict[str, Any] = {}
    for stat in (*final["counters"], *final["series"]):
        if stat["name"].startswith("request."):
            when = ("window", "rate", "extent", "began_ns", "ended_ns")
            kept = {key: value for key, value in stat.items() if key not in when}
            extent = stat.get("extent")
            if extent:
                kept["inside"] = (extent["inside"], extent["inside_total"])
            found[f"{stat['name']} {sorted(stat['labels'].items())}"] = kept
    return found


def counted(final: dict[str, Any], name: str) -> dict[str, int]:
    """A counter, by the value of its only label."""
    return {"".join(stat["labels"].values()): stat["value"] for stat in final["counters"] if stat["name"] == name}


def ended(child: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = child.communicate(timeout=DEADLINE_S)
    return child.returncode, err


def test_a_feed_comes_to_what_the_api_comes_to(ground: Ground, benchmark: Benchmark) -> None:
    """Figures of the feed equal those of the API to the nanosecond.

    The feed has noise between and errors in either form, and messages that are no events are counted.
    """
    base = time.monotonic_ns() - 10**9
    native = ground.program("native.py", NATIVE)
    computed = {"TELEMETRY_RUN__PERCENTILES": ",".join(with_percentiles(["endpoints"], PERCENTILES))}
    code, _, err = ground.run("run", "--quiet", "--", sys.executable, native, str(base), environ=computed)
    assert code == 0, err
    wanted = figures(ground.final())
    child, _ = ground.serve("--feed", f"endpoints:{benchmark.address}", environ=SOON)
    benchmark.await_subscriber()
    benchmark.send(*scenario(base))
    code, err = ended(child)
    assert code == 0, err
    final = ground.final()
    assert figures(final) == wanted
    assert wanted["request.latency [('window', 'tracked')]"]["max"] == 110 * MS
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete")
    assert counted(final, "feed.refused") == {"frame": 1, "event": 1, "issued_again": 1}
    assert "the sender has ended" in err


def test_the_summary_has_their_names(ground: Ground, benchmark: Benchmark) -> None:
    """The summary from the command line has the names of the endpoints benchmark.

    It covers the requests in the tracking window.
    """
    child, _ = ground.serve("--feed", f"endpoints:{benchmark.address}", environ=SOON)
    benchmark.await_subscriber()
    benchmark.send(*scenario(time.monotonic_ns() - 10**9))
    assert ended(child)[0] == 0
    code, out, err = ground.run("report", "--format", "endpoints")
    assert code == 0, err
    summary = json.loads(out)
    assert [summary[f"n_samples_{what}"] for what in ("issued", "completed", "failed")] == [4, 1, 2]
    assert summary["latency"]["max"] == 110 * MS
    assert summary["duration_ns"] == pytest.approx(110 * MS, rel=0.01)
    assert summary["finish_reason_counts"] == {"stop": 1}
    keys = [f"{float(key)}" for key in ENDPOINTS_PERCENTILES]
    assert [summary["latency"]["percentiles"][key] for key in keys] == [110 * MS] * 12
    [latency] = [
        stat
        for stat in ground.final()["series"]
        if stat["labels"] == {"window": "tracked"} and stat["name"] == "request.latency"
    ]
    assert {"1", "25", "97", "99.99"} <= set(latency["percentiles"])
    assert summary["legacy_loadgen_window_duration_ns"] is None
    code, out, _ = ground.run("report", "--format", "endpoints", "--requests", "request", "--no-legacy-window")
    assert (code, json.loads(out)["qps"]) == (0, summary["qps"])


def test_texts_are_counted_where_there_is_a_tokenizer(
    ground: Ground, benchmark: Benchmark, tokenizer_file: Path
) -> None:
    """Texts are counted as the library counts them. The first chunk is one token of the time per token."""
    from tokenizers import Tokenizer

    def tokens(text: str) -> int:
        return len(Tokenizer.from_file(str(tokenizer_file)).encode(text).ids)

    words = ("--feed", f"endpoints:{benchmark.address}", "--tokenizer", str(tokenizer_file))
    child, _ = ground.serve(*words, environ=SOON)
    benchmark.await_subscriber()
    base = time.monotonic_ns() - 10**9
    asked, chunks = "to be or not to be", ["the quick ", "brown fox ", "jumps"]
    benchmark.send(
        bus.single(decode.STARTED, base),
        bus.single(decode.ISSUED, base, "a", bus.prompt(asked)),
        bus.single(decode.FIRST, base + 10 * MS, "a"),
        bus.single(decode.CHUNK, base + 15 * MS, "a"),
        bus.single(decode.COMPLETE, base + 50 * MS, "a", bus.output(*chunks)),
        bus.single(decode.ENDED, base + 60 * MS),
    )
    code, err = ended(child)
    assert code == 0, err
    totals = {stat["name"]: stat["total"] for stat in ground.final()["series"]}
    generated = tokens("".join(chunks))
    assert totals["request.input_tokens"] == tokens(asked)
    assert totals["request.output_tokens"] == generated
    assert totals["request.tpot"] == pytest.approx(40 * MS / (generated - 1))


BENCHMARK = """
import sys, time, zmq
sys.path.insert(0, sys.argv[1])
from tests.unit.integrations.endpoints import bus
address, count, end = sys.argv[2], int(sys.argv[3]), sys.argv[4] == "end"
context = zmq.Context()
socket = context.socket(zmq.XPUB)
socket.setsockopt(zmq.SNDHWM, 0)
socket.bind(address)
socket.recv()
now = time.monotonic_ns()
batches = []
for first in range(0, count, 500):
    batch = []
    for number in range(first, first + 500):
        batch.append(bus.event("sample.issued", now + number, str(number)))
        batch.append(bus.event("sample.complete", now + number + 1_000_000, str(number)))
    batches.append(bus.batch(batch))
for message in [bus.single("session.started", now), *batches]:
    socket.send(message)  # all at once: whoever listens falls behind
if end:
    socket.send(bus.single("session.ended", time.monotonic_ns()))
context.destroy(10_000)
"""


@pytest.mark.parametrize("end", ["end", "die"])
def test_beside_a_command_everything_it_sent_is_taken(ground: Ground, end: str) -> None:
    """The feed finds the benchmark's address by a pattern beside a command.

    The run ends after the last event, whether or not the benchmark reports its end.
    """
    (ground.folder / "zmq_1").mkdir()
    program = ground.program("bench.py", BENCHMARK)
    repository = str(Path(__file__).parents[2])
    code, _, err = ground.run(
        *("run", "--strict", "--feed", f"endpoints:ipc://{ground.folder}/zmq_*/ev_*", "--"),
        *(sys.executable, program, repository, f"ipc://{ground.folder}/zmq_1/ev_pub_1", "60000", end),
    )
    assert code == (4 if end == "die" else 0), err
    final = ground.final()
    assert counted(final, "request.completed") == {"": 60_000}
    assert final["completeness"] == ("incomplete" if end == "die" else "complete")
    assert ("the benchmark sent no end message" in err) == (end == "die")
    assert ("1 of 1 feed session sent no end message" in ground.run("report", "latest")[1]) == (end == "die")


@pytest.mark.parametrize("others", [[], ["20:ended"]])
def test_a_benchmark_that_was_killed_is_incomplete_at_once(ground: Ground, others: list[str]) -> None:
    """Although the command ends well within ten seconds of it, and whatever other sessions did."""
    feed = f"endpoints:ipc://{ground.folder}/zmq_*/ev_pub_*"
    bench = " ".join(sessions_of(ground, *others, "30:killed"))
    code, _, err = ground.run("run", "--strict", "--feed", feed, "--", "sh", "-c", f"{bench}; true")
    assert code == 4, err
    lacks = f"1 of {len(others) + 1} feed session{'s' if others else ''} sent no end message"
    assert f"{lacks}" in err
    assert ground.final()["completeness"] == "incomplete"


def test_a_feed_that_is_killed_is_started_again(
    ground: Ground, benchmark: Benchmark, wait_until: WaitUntil
) -> None:
    """A feed that was killed is started again, and reports that it does not know what came before."""
    quick = {"TELEMETRY_RUN__DRAIN_TIMEOUT_S": "0.2"}  # the dead one's end never comes
    child, endpoint = ground.serve("--feed", f"endpoints:{benchmark.address}", environ=quick)
    benchmark.await_subscriber()
    benchmark.send(bus.single(decode.STARTED, 1))
    wait_until(lambda: total(ground, endpoint, "feed.sessions"), DEADLINE_S, "the session")
    feed = wait_until(lambda: child_of(child.pid), DEADLINE_S, "the feed's process")
    os.kill(feed, signal.SIGKILL)
    benchmark.await_subscriber()
    wait_until(lambda: child_of(child.pid) not in (0, feed), DEADLINE_S, "another")

    def known() -> int:
        benchmark.send(bus.single(decode.ISSUED, time.monotonic_ns(), os.urandom(4).hex()))
        return total(ground, endpoint, "request.issued")

    wait_until(known, DEADLINE_S, "an event of the second one")
    assert ground.run("stop", endpoint)[0] == 0
    code, err = ended(child)
    assert code == 0, err
    assert "the feed was killed by signal 9; it is started again" in err
    assert "the benchmark started before the feed" in err
    lacks = "2 of 2 feed sessions sent no end message, 1 of 2 feed sessions began before the feed"
    assert lacks in " ".join(ground.run("report", "latest")[1].split())


def test_alone_it_ends_when_it_is_told_to(ground: Ground, benchmark: Benchmark, wait_until: WaitUntil) -> None:
    """A feed that runs alone ends with what was sent until it was told to end.

    A late joiner does the same and reports that it was late.
    """
    _, endpoint = ground.serve()
    feed = ground.telemetry("feed", f"endpoints:{benchmark.address}", endpoint)
    benchmark.await_subscriber()
    benchmark.send(bus.single(decode.ISSUED, time.monotonic_ns(), "a"))
    wait_until(lambda: total(ground, endpoint, "request.issued"), DEADLINE_S, "the event")
    feed.send_signal(signal.SIGTERM)
    code, err = ended(feed)
    assert code == 0, err
    assert "the benchmark started before the feed" in err
    assert "stopped; received 1 message" in err


def test_it_ends_with_the_run(ground: Ground, benchmark: Benchmark) -> None:
    """A feed ends with the run, so that nobody has to look for its process."""
    child, endpoint = ground.serve()
    feed = ground.telemetry("feed", f"endpoints:{benchmark.address}", environ={"TELEMETRY_ENDPOINT": endpoint})
    benchmark.await_subscriber()
    assert ground.run("stop", endpoint)[0] == 0
    code, err = ended(feed)
    assert code == 6, err
    assert "the run is over; no messages received" in err
    assert ended(child)[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("feed", "endpoint:ipc:///x"), "did you mean endpoints"),
        (("serve", "--feed", "nobody"), "no feed is named 'nobody'"),
        (("run", "--feed", "endpoints:/x", "--", "true"), "is not a valid feed address"),
        (("run", "--feed", "endpoints:tcp://127.0.0.1", "--", "true"), "is not a valid feed address"),
        (("serve", "--feed", "endpoints:tcp://127.0.0.1:99999"), "is not a valid feed address"),
        (("feed", "endpoints:ipc://"), "is not a valid feed address"),
        (("serve", "--feed", "endpoints", "--feed", "endpoints"), "the same feed is given twice"),
        (("feed", "endpoints:ipc:///x", "ipc:///nowhere/at/all"), "no aggregator listens at"),
    ],
)
def test_what_can_not_be_is_said_at_once(ground: Ground, words: tuple[str, ...], said: str) -> None:
    """A wrong option is reported before there is a run, with the exit code of the error."""
    code, _, err = ground.run(*words)
    assert code == (1 if "nowhere" in words[-1] else 2)
    assert re.search(said, err), err
    assert not (ground.folder / "runs").exists()


@pytest.mark.parametrize(("code", "strict", "expected"), [(0, True, 6), (7, True, 7), (0, False, 0)])
def test_a_feed_to_which_nothing_came_fails_a_strict_run(
    ground: Ground, code: int, strict: bool, expected: int
) -> None:
    """A feed without messages fails a strict run after the command's own code.

    A line in the result states it, however short the command was.
    """
    flags = ["--strict"] if strict else []
    command = (sys.executable, "-c", f"raise SystemExit({code})")
    ended_with, _, err = ground.run("run", *flags, "--feed", f"endpoints:ipc://{ground.folder}/x", "--", *command)
    assert ended_with == expected, err
    assert "endpoints: stopped; no messages received" in err
    final = ground.final()
    assert [mark["text"] for mark in final["marks"]] == [
        f"feed endpoints:ipc://{ground.folder}/x: no messages received"
    ]
    assert final["completeness"] == "complete"


@pytest.mark.parametrize("comes", [True, False])
def test_a_feed_to_which_nothing_came_fails_a_strict_serve(
    ground: Ground, benchmark: Benchmark, comes: bool
) -> None:
    """Stopped while the feed listens. The result is complete, since no session has begun."""
    child, endpoint = ground.serve("--strict", "--feed", f"endpoints:{benchmark.address}", environ=SOON)
    benchmark.await_subscriber()
    if comes:
        benchmark.send(*scenario(time.monotonic_ns() - 10**9))
    else:
        assert ground.run("stop", endpoint)[0] == 0
    code, err = ended(child)
    assert ("the run is over; no messages received" in err) == (not comes)
    assert (code, ground.final()["completeness"]) == (0 if comes else 6, "complete"), err


def test_a_run_that_is_stopped_within_a_session_is_incomplete(
    ground: Ground, benchmark: Benchmark, wait_until: WaitUntil
) -> None:
    """The sender may still send, which would be in no number."""
    child, endpoint = ground.serve("--feed", f"endpoints:{benchmark.address}", environ=SOON)
    benchmark.await_subscriber()
    benchmark.send(bus.single(decode.STARTED, 1))
    wait_until(lambda: total(ground, endpoint, "feed.sessions"), DEADLINE_S, "the session")
    assert ground.run("stop", endpoint)[0] == 0
    _, err = ended(child)
    assert ground.final()["completeness"] == "incomplete", err
    assert "was still recording when the run ended" in err


def child_of(pid: int) -> int:
    """The process that a process has started; 0 if there is none."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for word in path.read_text().split():
            return int(word)
    return 0


def total(ground: Ground, endpoint: str, counter: str) -> int:
    """Return the value of a counter of the run so far, over all its labels."""
    code, out, _ = ground.run("status", endpoint, "--json")
    assert code == 0
    return sum(counted(json.loads(out), counter).values())


def stream(base: int, count: int, *, odd: int) -> list[bytes]:
    """Requests whose answers stream; of the first `odd` the end is stamped before the first piece, as a benchmark
    does whose worker stamps the one and whose main process the other."""
    events = [bus.event(decode.STARTED, base)]
    for number in range(count):
        at, key = base + number * MS, f"{number:032x}"
        ends = at + (4 if number < odd else 6) * MS
        events += [
            bus.event(decode.ISSUED, at, key, bus.prompt("to be or not to be")),
            bus.event(decode.FIRST, at + 5 * MS, key),
            bus.event(decode.COMPLETE, ends, key, bus.output("the quick ", "brown fox "), finish_reason="stop"),
        ]
    return [bus.batch(events), bus.single(decode.ENDED, base + 10**9)]


@pytest.mark.parametrize("counts", [True, False])
def test_an_end_that_is_stamped_before_the_first_piece_is_no_loss(
    ground: Ground, benchmark: Benchmark, tokenizer_file: Path, counts: bool
) -> None:
    """Requests whose end is stamped before the first piece are counted, and have no time per token.

    Without a tokenizer no time per token is known, so none is missing.
    """
    words = ("--tokenizer", str(tokenizer_file)) if counts else ()
    child, _ = ground.serve("--strict", "--feed", f"endpoints:{benchmark.address}", *words, environ=SOON)
    benchmark.await_subscriber()
    benchmark.send(*stream(time.monotonic_ns() - 2 * 10**9, 200, odd=5))
    code, err = ended(child)
    assert code == 0, err
    final = ground.final()
    found = {stat["name"]: stat["count"] for stat in final["series"]}
    assert final["completeness"] == "complete"
    assert counted(final, "request.completed") == {"stop": 200}
    assert (found["request.latency"], found["request.ttft"]) == (200, 200)
    assert counted(final, "request.out_of_order") == ({"": 5} if counts else {})
    assert found.get("request.tpot", 0) == (195 if counts else 0)
    said = "5 durations ignored: the end is before the beginning"
    assert (said in ground.run("report", "latest")[1]) == counts


TOOL = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


def test_without_a_tokenizer_no_token_is_invented(ground: Ground, benchmark: Benchmark) -> None:
    """Figures, rates, gates and the summary contain no tokens if there is no tokenizer.

    This holds whatever chunks there are, and the report says what to do.
    """
    child, _ = ground.serve("--feed", f"endpoints:{benchmark.address}", environ=SOON)
    benchmark.await_subscriber()
    benchmark.send(*stream(time.monotonic_ns() - 2 * 10**9, 200, odd=0))
    code, err = ended(child)
    assert code == 0, err
    final = ground.final()
    assert final["completeness"] == "complete"
    names = {stat["name"] for stat in final["series"] if stat["count"]}
    assert names == {"request.latency", "request.ttft"}
    report = " ".join(ground.run("report", "latest")[1].split())
    assert "tokens of 200 completed requests are unknown: no tokenizer was given: pass --tok" in report
    assert "output tokens:" not in report
    for gate in ("throughput(request.output_tokens) > 1/s", "throughput(request.output_tokens) < 1/s"):
        code, out, err = ground.run("gate", "latest", gate)
        assert code == 3, out + err
    summary = json.loads(ground.run("report", "--format", "endpoints")[1])
    assert (summary["tps"], summary["tpot"], summary["output_sequence_lengths"]) == (None, {}, {})


def test_calls_of_tools_have_no_number_of_tokens(
    ground: Ground, benchmark: Benchmark, tokenizer_file: Path
) -> None:
    """Tool calls have an unknown number of tokens, not 0, even with a tokenizer.

    All figures that rest on them are unknown.
    """
    words = ("--feed", f"endpoints:{benchmark.address}", "--tokenizer", str(tokenizer_file))
    child, _ = ground.serve(*words, environ=SOON)
    benchmark.await_subscriber()
    base = time.monotonic_ns() - 10**9
    events = [bus.event(decode.STARTED, base)]
    for number in range(6):
        data = bus.output("the quick ", "brown") if number % 2 else ["TextModelOutput", "", None, TOOL]
        finish = "stop" if number % 2 else "tool_calls"
        events += [
            bus.event(decode.ISSUED, base + number * MS, str(number)),
            bus.event(decode.FIRST, base + (number + 5) * MS, str(number)),
            bus.event(decode.COMPLETE, base + (number + 9) * MS, str(number), data, finish_reason=finish),
        ]
    benchmark.send(bus.batch(events), bus.single(decode.ENDED, base + 10**8))
    code, err = ended(child)
    assert code == 0, err
    final = ground.final()
    (tokens,) = [stat for stat in final["series"] if stat["name"] == "request.output_tokens"]
    assert (tokens["count"], tokens["min"] > 0) == (3, True)
    assert counted(final, "feed.uncounted") == {"tool_calls": 3}
    report = " ".join(ground.run("report", "latest")[1].split())
    assert "of 3 completed requests are unknown: the answer contains tool calls" in report
    assert ground.run("gate", "latest", "throughput(request.output_tokens) > 1/s")[0] == 3
    assert json.loads(ground.run("report", "--format", "endpoints")[1])["tps"] is None


SESSIONS = """
import os, sys, time, zmq
sys.path.insert(0, sys.argv[1])
from tests.unit.integrations.endpoints import bus
folder, *sessions = sys.argv[2:]

def session(path, count, ending):
    context = zmq.Context()
    socket = context.socket(zmq.XPUB)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.bind("ipc://" + path)
    if socket.poll(20_000):
        socket.recv()
    now = time.monotonic_ns()
    events = []
    for number in range(count):
        key = os.urandom(16).hex()
        events.append(bus.event("sample.issued", now + number, key))
        events.append(bus.event("sample.complete", now + number + 1_000_000, key))
    socket.send(bus.single("session.started", now))
    socket.send(bus.single("session.start_performance_tracking", now))
    socket.send(bus.batch(events))
    if ending == "killed":
        context.destroy(10_000)  # what was sent has left; nothing more follows
        os.kill(os.getpid(), 9)
    socket.send(bus.single("session.stop_performance_tracking", now))
    if ending == "interrupted":
        socket.send(bus.single("session.interrupted", now))
    socket.send(bus.single("session.ended", now))
    context.destroy(10_000)

for number, words in enumerate(sessions):
    count, ending, *fixed = words.split(":")
    path = f"{folder}/zmq_{os.getpid()}_{number}"
    os.makedirs(path, exist_ok=True)
    session(fixed[0] if fixed else path + "/ev_pub_" + os.urandom(4).hex(), int(count), ending)
"""
REPOSITORY = str(Path(__file__).parents[2])


def sessions_of(ground: Ground, *sessions: str, seconds: float = 0.0) -> list[str]:
    """A command with these sessions, `COUNT:ENDING[:PATH]` each; its first socket appears after so many seconds."""
    program = ground.program("sessions.py", SESSIONS)
    bench = [sys.executable, program, REPOSITORY, str(ground.folder), *sessions]
    return ["sh", "-c", 'sleep "$0"; exec "$@"', str(seconds), *bench] if seconds else bench


def by_session(final: dict[str, Any], name: str) -> dict[str, int]:
    """A counter by session, all windows together."""
    found: dict[str, int] = {}
    for stat in final["counters"]:
        if stat["name"] == name:
            session = stat["labels"].get("session", "")
            found[session] = found.get(session, 0) + stat["value"]
    return found


def test_the_socket_of_another_benchmark_is_left_alone(ground: Ground, wait_until: WaitUntil) -> None:
    """However new it is, when it comes, and however late that of the command: nobody subscribes there."""
    folder = ground.folder / "zmq_0"
    folder.mkdir()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    other = context.socket(zmq.XPUB)
    other.bind(f"ipc://{folder}/ev_pub_0")
    feed = f"endpoints:ipc://{ground.folder}/zmq_*/ev_pub_*"
    command = sessions_of(ground, "50:ended", seconds=2.5)
    child = ground.telemetry("run", "--strict", "--feed", feed, "--", *command)
    wait_until(ground.live, DEADLINE_S, "the run")
    newer = context.socket(zmq.XPUB)
    newer.bind(f"ipc://{folder}/ev_pub_1")
    code, err = ended(child)
    assert code == 0, err
    assert (other.poll(0), newer.poll(0)) == (0, 0)
    context.destroy(0)
    assert by_session(ground.final(), "request.completed") == {"": 50}


def test_two_runs_side_by_side_record_their_own(ground: Ground, wait_until: WaitUntil) -> None:
    """Although both look in the same places, and the socket of the second is there before that of the first."""
    feed = f"endpoints:ipc://{ground.folder}/zmq_*/ev_pub_*"
    slow, quick = sessions_of(ground, "30:ended", seconds=3.0), sessions_of(ground, "70:ended", seconds=1.0)
    first = ground.telemetry("run", "--name", "first", "--feed", feed, "--", *slow)
    wait_until(ground.live, DEADLINE_S, "the first run")
    second = ground.telemetry("run", "--name", "second", "--feed", feed, "--", *quick)
    for child in (first, second):
        code, err = ended(child)
        assert code == 0, err
    for name, count in (("first", 30), ("second", 70)):
        (run,) = (ground.folder / "runs").glob(f"{name}-*")
        assert by_session(ground.final(run.name), "request.completed") == {"": count}


def test_all_sessions_of_a_command_are_recorded_apart(ground: Ground) -> None:
    """The first as if it were alone, each later one with a label; a gate judges each of them."""
    feed = f"endpoints:ipc://{ground.folder}/zmq_*/ev_pub_*"
    gates = ("--gate", "count(request.latency) > 90", "--gate", "count(request.latency{session=2}) == 98")
    command = sessions_of(ground, "99:ended", "98:ended", "97:ended")
    code, _, err = ground.run("run", "--strict", *gates, "--feed", feed, "--", *command)
    assert code == 0, err
    final = ground.final()
    assert final["completeness"] == "complete"
    assert by_session(final, "request.completed") == {"": 99, "2": 98, "3": 97}
    assert {stat["labels"]["window"] for stat in final["counters"] if stat["name"] == "request.issued"} == {
        "tracked"
    }
    marks = [mark["text"] for mark in final["marks"]]
    assert [text for text in marks if text.endswith("started")] == [
        "session started",
        "session 2 started",
        "session 3 started",
    ]
    assert "request{session=2}" in ground.run("report", "latest")[1]
    code, out, err = ground.run("report", "--format", "endpoints", "--requests", "request{session=3}")
    assert code == 0, err
    assert json.loads(out)["n_samples_completed"] == 97
    assert ground.run("gate", "latest", "count(request.latency) > 97")[0] == 99
    code, _, err = ground.run("report", "--format", "endpoints")
    assert code == 2, err
    assert "request{session=2}" in err


def test_sessions_side_by_side_and_at_one_address(ground: Ground) -> None:
    """Two that go on at the same time have windows of their own; two after one another may have one address."""
    feed = f"endpoints:ipc://{ground.folder}/zmq_*/ev_pub_*"
    both = " & ".join(" ".join(sessions_of(ground, f"{count}:ended")) for count in (40, 60))
    code, _, err = ground.run("run", "--strict", "--feed", feed, "--", "sh", "-c", f"{both} & wait")
    assert code == 0, err
    assert sorted(by_session(ground.final(), "request.completed").values()) == [40, 60]
    path = ground.folder / "fixed"
    command = sessions_of(ground, f"10:ended:{path}", f"20:ended:{path}")
    code, _, err = ground.run("run", "--strict", "--feed", f"endpoints:ipc://{path}", "--", *command)
    assert code == 0, err
    assert by_session(ground.final(), "request.completed") == {"": 10, "2": 20}


@pytest.mark.parametrize(
    ("sessions", "said"),
    [
        (["30:interrupted"], "the benchmark was interrupted"),
        (["30:ended", "20:interrupted", "10:ended"], "session 2 of the benchmark was interrupted"),
    ],
)
def test_an_interrupted_benchmark_makes_an_interrupted_run(ground: Ground, sessions: list[str], said: str) -> None:
    """An interrupted benchmark makes the run interrupted, whatever the command's code.

    The run has all that came, exactly, and a reason that names the session.
    """
    feed = f"endpoints:ipc://{ground.folder}/zmq_*/ev_pub_*"
    code, _, err = ground.run("run", "--strict", "--feed", feed, "--", *sessions_of(ground, *sessions))
    assert code == 5, err
    final = ground.final()
    assert (final["state"], final["completeness"], final["exact"]) == ("INTERRUPTED", "interrupted", True)
    assert final["reason"] == f"{said}; the command exited with code 0"
    assert sum(by_session(final, "request.completed").values()) == sum(int(one.split(":")[0]) for one in sessions)
    shown = " ".join(ground.run("report", "latest")[1].split())
    assert said in shown
    assert "events after" not in shown
    summary = json.loads(ground.run("report", "--format", "endpoints", "--requests", "request")[1])
    assert (summary["state"], summary["n_samples_issued"]) == ("interrupted", 30)


def test_texts_of_an_interrupted_benchmark_are_counted(
    ground: Ground, benchmark: Benchmark, tokenizer_file: Path
) -> None:
    """The texts of an interrupted benchmark are counted to the end, because it ended in order."""
    words = ("--strict", "--feed", f"endpoints:{benchmark.address}", "--tokenizer", str(tokenizer_file))
    child, _ = ground.serve(*words, environ=SOON)
    benchmark.await_subscriber()
    base = time.monotonic_ns() - 2 * 10**9
    requests, end = stream(base, 200, odd=0)
    benchmark.send(requests, bus.single(decode.INTERRUPTED, base + 10**9), end)
    code, err = ended(child)
    assert code == 5, err
    final = ground.final()
    assert final["state"] == "INTERRUPTED"
    assert final["reason"].startswith("the benchmark was interrupted; ")
    (tokens,) = [stat for stat in final["series"] if stat["name"] == "request.output_tokens"]
    assert (tokens["count"], final["pending"]["deferred"]) == (200, 0)


def test_a_recovered_run_of_an_interrupted_benchmark_is_interrupted(ground: Ground) -> None:
    """The journal is enough, also where the result is lost."""
    feed = f"endpoints:ipc://{ground.folder}/zmq_*/ev_pub_*"
    code, _, err = ground.run("run", "--feed", feed, "--", *sessions_of(ground, "30:interrupted"))
    assert code == 0, err
    before = ground.final()
    path = ground.folder / "runs" / "latest" / "final_snapshot.json"
    path.unlink()
    code, _, err = ground.run("recover", "latest")
    assert code == 0, err
    assert (ground.final()["state"], ground.final()["reason"]) == ("INTERRUPTED", before["reason"])
