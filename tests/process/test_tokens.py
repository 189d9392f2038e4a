"""Tokens counted beside a run: real workers, killed or late, and every text once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tokenizers import Tokenizer

from telemetry.testing import frame
from telemetry.transport.producer import ProducerLink
from telemetry.wire.control import End, Ended, Hello, Welcome
from telemetry.wire.events import Uncounted

pytestmark = pytest.mark.slow
DEADLINE_S = 60.0
BATCH = 2_000
SENDER = """
import os, time, telemetry

run = telemetry.start("texts")
llm = run.requests("llm")
made = 0
while not os.path.exists("go"):
    for _ in range(20):
        request = llm.issue(input_text=f"ask {made}")
        request.first()
        request.complete(output_text=f"to be or not to be {made}")
        made += 1
    time.sleep(0.005)
run.finish()
print(made)
"""
FINISH_S = 3.0
EMBEDDED = f"""
import json, telemetry

run = telemetry.start("texts", finish_timeout_s={FINISH_S})
llm = run.requests("llm")
print("up", flush=True)
input()
for number in range(200):
    llm.issue().complete(output_text="to be or not to be")
print("finishing", flush=True)
report = run.finish()
(tokens,) = [stat for stat in report.snapshot.series if stat.name == "llm.output_tokens"]
print(json.dumps({{"source": report.source, "completeness": report.completeness, "count": tokens.count}}))
"""
WaitUntil = Callable[..., Any]


class Peer:
    """A producer driven by hand, that sends texts, says end, and hears the answer."""

    def __init__(self, endpoint: str, wait_until: WaitUntil) -> None:
        self.link = ProducerLink(endpoint, "peer")
        self._heard: list[Any] = []
        self._wait_until = wait_until
        self.link.send_control(Hello(id=1, producer="peer"))
        self.link.connect_events(self.answer(Welcome).events)

    def hear(self, kind: type) -> Any:
        self._heard += self.link.receive_control(0.01)
        return next((item for item in self._heard if isinstance(item, kind)), None)

    def answer(self, kind: type) -> Any:
        return self._wait_until(lambda: self.hear(kind), DEADLINE_S, kind.__name__)

    def send(self, texts: list[str]) -> None:
        for number, begin in enumerate(range(0, len(texts), BATCH)):
            records = [
                Uncounted(text=text, tokens="llm.output_tokens", per_token="llm.tpot", span_ns=1_000_000)
                for text in texts[begin : begin + BATCH]
            ]
            data = frame("peer", number, begin, records=records, anchor=(time.monotonic_ns(), time.time_ns()))
            while not self.link.send_events(data):
                self.hear(Welcome)
        batches = -(-len(texts) // BATCH)
        self.link.send_control(End(id=2, producer="peer", batches=batches, emitted=len(texts)))
        self.answer(Ended)


def send(endpoint: str, texts: list[str], wait_until: WaitUntil) -> None:
    """Send the texts as one peer, from its hello to its end."""
    peer = Peer(endpoint, wait_until)
    try:
        peer.send(texts)
    finally:
        peer.link.close(0.0)


def library_counts(path: Path, texts: list[str]) -> list[int]:
    tokenizer = Tokenizer.from_file(str(path))
    return [len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]


def stop(ground: Any, child: Any) -> dict[str, Any]:
    """The result of the run."""
    code, _, err = ground.run("stop", "job")
    assert code == 0, err
    child.communicate(timeout=DEADLINE_S)
    return dict(ground.final())


def one(final: dict[str, Any], name: str) -> dict[str, Any]:
    return next(stat for stat in final["series"] if stat["name"] == name)


def workers(aggregator: int) -> list[psutil.Process]:
    return psutil.Process(aggregator).children()


def test_a_hundred_thousand_texts_at_the_end_are_counted_in_time(
    ground: Any, tokenizer_file: Path, wait_until: WaitUntil
) -> None:
    """All of them, as the library counts them; the run's own percentiles are exact."""
    texts = [f"to be or not to be, that is question {number}" for number in range(100_000)]
    child, endpoint = ground.serve("--tokenizer", str(tokenizer_file), "--token-workers", "2")
    send(endpoint, texts, wait_until)
    final = stop(ground, child)
    expected = library_counts(tokenizer_file, texts)
    tokens = one(final, "llm.output_tokens")
    assert (tokens["count"], tokens["total"]) == (100_000, sum(expected))
    assert (tokens["min"], tokens["max"]) == (min(expected), max(expected))
    assert tokens["percentiles"]["99.9"] == sorted(expected)[-(-100_000 * 999 // 1000) - 1]
    assert one(final, "llm.tpot")["count"] == 100_000
    assert one(final, "llm.tpot")["min"] == 1_000_000 / max(expected)
    assert (final["completeness"], final["exact"], final["pending"]["deferred"]) == ("complete", True, 0)


def test_texts_beyond_the_budget_are_shown_as_pending(
    ground: Any, tokenizer_file: Path, wait_until: WaitUntil
) -> None:
    """The counts of texts within the budget are right.

    The result and the report have the number of texts that were not counted.
    """
    texts = [f"to be or not to be, that is question {number} " * 5 for number in range(100_000)]
    child, endpoint = ground.serve("--tokenizer", str(tokenizer_file), "--token-budget", "0.2")
    send(endpoint, texts, wait_until)
    final = stop(ground, child)
    left = final["pending"]["deferred"]
    assert left > 0
    assert one(final, "llm.output_tokens")["count"] == 100_000 - left
    assert final["completeness"] == "incomplete"
    code, out, err = ground.run("report", "latest")
    assert code == 0, err
    assert f"the tokens of {left:,} texts were not counted in time" in out


def test_a_worker_that_is_killed_costs_no_text(ground: Any, tokenizer_file: Path, wait_until: WaitUntil) -> None:
    """A worker that is killed several times in the middle of its work costs no text."""
    texts = [f"to be or not to be, that is question {number} " * 4 for number in range(30_000)]
    child, endpoint = ground.serve("--tokenizer", str(tokenizer_file), "--token-workers", "2")
    first = {worker.pid for worker in workers(child.pid)}
    assert len(first) == 1
    send(endpoint, texts, wait_until)
    for _ in range(3):
        victim = wait_until(lambda: workers(child.pid), DEADLINE_S)[0]
        victim.send_signal(signal.SIGKILL)
        wait_until(lambda victim=victim: victim not in workers(child.pid), DEADLINE_S)
    final = stop(ground, child)
    tokens = one(final, "llm.output_tokens")
    assert (tokens["count"], tokens["total"]) == (30_000, sum(library_counts(tokenizer_file, texts)))
    assert (final["completeness"], final["warnings"]) == ("complete", [])


def test_a_killed_aggregator_costs_no_text(ground: Any, tokenizer_file: Path, wait_until: WaitUntil) -> None:
    """`telemetry run` starts another, which counts what is left; workers of the dead one are gone."""
    program = ground.program("sender.py", SENDER)
    words = ["run", "--quiet", "--name", "job", "--tokenizer", str(tokenizer_file), "--", sys.executable, program]
    wrapper = ground.telemetry(*words)

    def aggregator() -> tuple[int, int] | None:
        code, out, _ = ground.run("status", "job", "--json")
        known = json.loads(out) if code == 0 else {}
        pids = [int(run["pid"]) for run in ground.live() if run["pid"]]
        return (pids[0], known["accounting"]["applied"]) if "accounting" in known and pids else None

    for _ in range(2):
        before = wait_until(aggregator, DEADLINE_S, "an aggregator")[1]
        pid, _ = wait_until(
            lambda before=before: (now := aggregator()) and now[1] > before + 500 and now, DEADLINE_S
        )
        left = workers(pid)
        psutil.Process(pid).send_signal(signal.SIGKILL)
        wait_until(lambda left=left: not any(worker.is_running() for worker in left), DEADLINE_S, "no orphans")
    (ground.folder / "go").touch()
    out, err = wrapper.communicate(timeout=DEADLINE_S)
    assert wrapper.returncode == 0, err
    made = int(out)
    final = ground.final()
    for name, words in {"llm.output_tokens": "to be or not to be", "llm.input_tokens": "ask"}.items():
        expected = library_counts(tokenizer_file, [f"{words} {number}" for number in range(made)])
        tokens = one(final, name)
        assert (tokens["count"], tokens["total"]) == (made, sum(expected)), name
    assert one(final, "llm.tpot")["count"] == made
    latency, extent = one(final, "llm.latency")["extent"], one(final, "llm.output_tokens")["extent"]
    assert (extent["last_ns"], extent["inside"]) == (latency["last_ns"], latency["inside"])
    assert (final["completeness"], final["pending"]["deferred"]) == ("complete", 0), final["warnings"]
    assert "restarted 2 times" in " ".join(final["warnings"])


def test_finish_waits_as_long_as_texts_may_take(ground: Any, tokenizer_file: Path, wait_until: WaitUntil) -> None:
    """The program that started the aggregator gets the result, not what was known after its own timeout."""
    program = ground.program("embedded.py", EMBEDDED)
    environ = {"TELEMETRY_TOKENS__TOKENIZER": str(tokenizer_file)}
    child = ground.popen(sys.executable, program, environ=environ, stdin=subprocess.PIPE)
    assert child.stdout.readline() == "up\n"
    (run,) = ground.live()
    counting = workers(run["pid"])
    for worker in counting:
        worker.suspend()
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "finishing\n"
    later_s = time.monotonic() + FINISH_S + 1.0
    wait_until(lambda: time.monotonic() >= later_s, DEADLINE_S)
    for worker in counting:
        worker.resume()
    out, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, err
    assert json.loads(out) == {"source": "pubsub", "completeness": "complete", "count": 200}, err


@pytest.mark.parametrize("command", [("serve",), ("run", "--", "touch", "ran")])
def test_a_tokenizer_that_can_t_be_read_is_said_before_anything_begins(
    ground: Any, command: tuple[str, ...]
) -> None:
    """Exit code 1, what to do, and neither a run nor the command."""
    (ground.folder / "bad.json").write_text("{}")
    code, out, err = ground.run(command[0], "--tokenizer", "bad.json", *command[1:])
    assert (code, out) == (1, "")
    assert "can't read the tokenizer" in err
    assert "--tokenizer takes the path of a tokenizer.json of the library `tokenizers" in err
    assert not (ground.folder / "runs").exists()
    assert not (ground.folder / "ran").exists()


def test_a_terminal_s_interrupt_ends_the_run_and_its_workers(
    ground: Any, tokenizer_file: Path, wait_until: WaitUntil
) -> None:
    """The run does not wait for texts after Ctrl-C, and the result has the number of pending texts."""
    texts = ["to be or not to be " * 80] * 20_000
    child, endpoint = ground.serve("--tokenizer", str(tokenizer_file), start_new_session=True)
    left = workers(child.pid)
    send(endpoint, texts, wait_until)
    os.killpg(os.getpgid(child.pid), signal.SIGINT)
    child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0
    final = ground.final()
    assert (final["state"], final["completeness"]) == ("INTERRUPTED", "interrupted")
    assert final["pending"]["deferred"] > 0
    assert not any(worker.is_running() for worker in left)
