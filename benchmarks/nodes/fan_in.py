"""Many leaves and one root: `python -m benchmarks.nodes.fan_in [--leaves 1250] [--rate 100] [--middle 36]`.

The root is a real aggregator with its journal. The leaves are sockets of one other process, each with its own XPUB
and DEALER, that send real intervals of 100 series, 100 counters and 20 gauges once a second. Every value is counted
at the end. With `--middle`, so many real aggregators are between the leaves and the root.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import zmq
from msgspec import Raw

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.transport.client import ControlClient
from telemetry.wire.codec import decode_response, encode_batch, encode_control
from telemetry.wire.control import End, Ended, GetStatus, Hello, Ping, Status, Stop, Welcome
from telemetry.wire.events import Define, OutgoingBatch
from telemetry.wire.nodes import NodeAccount
from telemetry.wire.rows import RowArray
from telemetry.wire.snapshot import Accounting, MetricsSnapshot
from telemetry.wire.version import PROTOCOL

SERIES: Final = 100
COUNTERS: Final = 100
GAUGES: Final = 20
PRODUCERS: Final = 8  # of a leaf, as its account says
_PACK: Final = msgspec.msgpack.encode


@dataclass(frozen=True)
class Second:
    """What a leaf sends of one second, without its account."""

    records: list[bytes]
    events: int
    values: int


def seconds(rate: int) -> tuple[Second, Second]:
    """Return the first second of a leaf, with its definitions, and a later one. `rate` is in values/s a series."""
    leaf = Aggregator(AggregatorConfig(leaf=True))
    random = np.random.default_rng(7)
    made = []
    for number in range(2):
        leaf.apply([], 0, 0)
        _record(leaf, rate, random, number)
        now_ns = (number + 1) * 10**9
        leaf.roll(now_ns - 10**9, now_ns, 10**9)
        interval = leaf.leaf.take_interval()
        assert interval is not None
        records = interval.records(number, now_ns - 10**9, now_ns, 3 << 20)
        events = sum(not isinstance(record, Define) for record in records)
        made.append(Second([_PACK(record) for record in records], events, interval.values))
    return made[0], Second(made[1].records, made[1].events, made[1].values - made[0].values)


def _record(leaf: Aggregator, rate: int, random: np.random.Generator, number: int) -> None:
    from telemetry.wire.codec import decode_batch

    ids = range(SERIES + COUNTERS + GAUGES)
    kinds = ["series"] * SERIES + ["counter"] * COUNTERS + ["gauge"] * GAUGES
    defines = [Raw(_PACK(Define(at, f"metric{at}", kinds[at], "ms"))) for at in ids]  # type: ignore[arg-type]
    rows: list[float] = []
    for at in ids:
        values = random.lognormal(2, 1, rate) if at < SERIES else np.ones(rate)
        for value in values.tolist():
            rows += [float(at), 0, value]
    frame = encode_batch(OutgoingBatch(PROTOCOL, "one", number, number * len(rows) // 3, (0, 0), {}, defines, rows))
    batch = decode_batch(bytes(frame))
    assert isinstance(batch.rows, RowArray)
    now_ns = number * 10**9 + 5 * 10**8
    assert leaf.admit(batch, now_ns)
    leaf.apply([batch], now_ns, now_ns)


class Leaf:
    """One leaf: its two sockets and its numbers."""

    def __init__(self, context: Any, control: str, number: int) -> None:
        self.name = f"leaf{number:05}"
        self.seq = self.first = self.values = 0
        self._control = context.socket(zmq.DEALER)
        self._control.setsockopt(zmq.ROUTING_ID, self.name.encode())
        self._control.connect(control)
        self._context = context
        self.tell(Hello(id=1, producer=self.name, name="fan-in", node=self.name, mono_ns=time.monotonic_ns()))

    def welcome(self) -> None:
        """Wait for the root, connect, and wait for its subscription."""
        answer = self._await(Welcome)
        self._events = self._context.socket(zmq.XPUB)
        self._events.setsockopt(zmq.XPUB_NODROP, 1)
        self._events.setsockopt(zmq.SNDHWM, 64)
        self._events.connect(answer.events)

    def subscribed(self) -> None:
        self._events.recv()

    def tell(self, message: Any) -> None:
        self._control.send(encode_control(message))

    def send(self, second: Second, roll: int, *, final: bool) -> int:
        """Send one second and the account. Return the bytes. Waits while the pipe is full."""
        self.values += second.values
        account = NodeAccount(
            roll,
            self.values,
            Accounting(emitted=self.values, received=self.values, applied=self.values),
            producers=PRODUCERS,
            completeness="complete" if final else "incomplete",
            final=final,
        )
        records = [*map(Raw, second.records), Raw(_PACK(account))]
        anchor = (time.monotonic_ns(), time.time_ns())
        frame = encode_batch(OutgoingBatch(PROTOCOL, self.name, self.seq, self.first, anchor, {}, records, []))
        self._events.send(frame)
        self.seq += 1
        self.first += second.events + 1
        return len(frame)

    def drain(self) -> None:
        """Throw away acknowledgements."""
        try:
            while True:
                self._control.recv(zmq.NOBLOCK)
        except zmq.Again:
            pass

    def end(self) -> None:
        self.drain()
        self.tell(End(id=3, producer=self.name, batches=self.seq, emitted=self.first))

    def ended(self) -> None:
        self._await(Ended)

    def _await(self, kind: type[Any]) -> Any:
        while True:
            answer = decode_response(self._control.recv())
            if isinstance(answer, kind):
                return answer


@contextmanager
def serve(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """An aggregator process and what its ready line says."""
    ready, tell = os.pipe()
    command = [sys.executable, "-m", "telemetry", "serve", "--dir", str(folder), "--ready-fd", str(tell), *words]
    with subprocess.Popen(command, pass_fds=[tell]) as process:
        os.close(tell)
        try:
            with os.fdopen(ready) as pipe:
                yield process, json.loads(pipe.readline())
        finally:
            process.terminate()


def cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(leaves: int, rate: int, length_s: int, middle: int = 0, refresh_hz: float = 1.0) -> dict[str, float]:
    """Run one root and so many leaves for so many seconds, with `middle` aggregators in between."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    first, later = seconds(rate)
    with ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        hertz = ("--refresh-hz", str(refresh_hz))
        process, facts = undo.enter_context(
            serve(folder, "--name", "root", "--nodes", str(middle or leaves), *hertz)
        )
        between = [
            undo.enter_context(
                serve(folder, "--name", f"m{at}", "--node", f"m{at}", "--upstream", facts["endpoint"], *hertz)
            )
            for at in range(middle)
        ]
        ends = [told["endpoint"] for _, told in between] or [facts["endpoint"]]
        context = undo.enter_context(zmq.Context(io_threads=1))
        context.set(zmq.MAX_SOCKETS, 4 * leaves)
        context.linger = 0
        every = [Leaf(context, ends[number % len(ends)], number) for number in range(leaves)]
        undo.callback(context.destroy, 0)
        for leaf in every:
            leaf.welcome()
        for leaf in every:
            leaf.subscribed()
        for leaf in every:
            leaf.send(first, 0, final=False)
        began, cpu_before = time.monotonic(), cpu_s(process.pid)
        between_before = sum(cpu_s(child.pid) for child, _ in between)
        sent = _send(every, later, began, length_s)
        lasted_s = time.monotonic() - began
        used_s = cpu_s(process.pid) - cpu_before
        between_s = sum(cpu_s(child.pid) for child, _ in between) - between_before
        snapshot = _status(facts["endpoint"])
        for leaf in every:
            leaf.end()
        for leaf in every:
            leaf.ended()
        peak = peak_mib(process.pid)
        with ControlClient(facts["endpoint"]) as client:
            client.request(Stop(reason="measured"), 30.0)
        process.wait(180)
        final = msgspec.json.decode((Path(facts["dir"]) / "final_snapshot.json").read_bytes(), type=MetricsSnapshot)
        _check(final, leaves, rate, length_s + 1, middle)
    figures = {
        "leaves": leaves,
        "values/s a series": rate,
        "MB/s of the leaves": sent / lasted_s / 1e6,
        "root, % of a core": 100 * used_s / lasted_s,
        "root, MiB": peak,
        "ticks": snapshot.cost.ticks,
        "late ticks": snapshot.cost.ticks_late,
        "tick, ms": snapshot.cost.tick_ms,
        "longest tick, ms": snapshot.cost.tick_ms_max,
        "senders behind, s": lasted_s - length_s,
    }
    if middle:
        figures["a middle one, % of a core"] = 100 * between_s / lasted_s / middle
    return figures


def _send(every: list[Leaf], later: Second, began: float, length_s: int) -> int:
    """Send so many seconds of all leaves, evenly spread. Return the bytes."""
    sent = 0
    for second in range(length_s):
        for at, leaf in enumerate(every):
            due = began + second + at / len(every)
            time.sleep(max(0.0, due - time.monotonic()))
            sent += leaf.send(later, second + 1, final=second == length_s - 1)
            leaf.tell(Ping(id=2, producer=leaf.name, mono_ns=time.monotonic_ns()))
            leaf.drain()
    return sent


def _status(endpoint: str) -> MetricsSnapshot:
    with ControlClient(endpoint) as client:
        answer = client.request(GetStatus(), 30.0)
    assert isinstance(answer, Status)
    return answer.snapshot


def _check(final: MetricsSnapshot, leaves: int, rate: int, seconds: int, middle: int) -> None:
    per_instrument = leaves * rate * seconds
    expected = per_instrument * (SERIES + COUNTERS + GAUGES)
    assert final.completeness == "complete", (final.completeness, final.warnings[:5])
    assert final.accounting.applied == expected, (final.accounting, expected)
    assert {stat.count for stat in final.series} == {per_instrument}
    assert {stat.value for stat in final.counters} == {per_instrument}
    assert len(final.series) == SERIES
    assert len(final.nodes) == (middle or leaves)
    assert sum(1 + node.nodes for node in final.nodes) == leaves + middle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, default=1_250)
    parser.add_argument("--rate", type=int, default=100, help="values/s of each series on each node")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--middle", type=int, default=0, help="aggregators between the leaves and the root")
    parser.add_argument("--tiny", action="store_true", help="two small runs, too short for figures")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.2f} before\n")
    runs = [(3, 10, 1, 0), (3, 10, 1, 2)] if args.tiny else [(args.leaves, args.rate, args.seconds, args.middle)]
    for run in runs:
        print("| figure | value |\n|---|---|")
        for what, figure in measure(*run).items():
            print(f"| {what} | {figure:,.1f} |")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
