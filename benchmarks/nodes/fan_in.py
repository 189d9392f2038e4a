"""Many leaves and one root: `python -m benchmarks.nodes.fan_in [--setting usual] [--leaves 1250] [--middle 36]`.

The root is a real aggregator with its journal. The leaves are sockets of one other process, each with its own XPUB
and DEALER, that send real intervals once a second. Every value is counted at the end. With `--middle`, so many real
aggregators are between the leaves and the root. With `--relayed`, each leaf is a relay and sends what so many nodes
would send through it. Settings of a leaf:

    usual   26 gauges with the label `node`, 2 series and 2 counters, and one step a second with the work and the
            wait of `--ranks` ranks; the root makes 10 snapshots a second, and one viewer reads and decodes each
    many    100 series, 100 counters and 20 gauges, each `--rate` values a second; one snapshot a second, no viewer
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
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.transport.client import ControlClient
from telemetry.wire.codec import decode_response, encode_batch, encode_control
from telemetry.wire.control import End, Ended, GetStatus, Hello, Ping, Status, Stop, Welcome
from telemetry.wire.events import Define, Kind, OutgoingBatch
from telemetry.wire.nodes import Found, NodeAccount, NodeInterval, PartialValue, Search, StepPart
from telemetry.wire.snapshot import Accounting, MetricsSnapshot
from telemetry.wire.stragglers import WAIT, WORK
from telemetry.wire.version import PROTOCOL

AXIS: Final = "step"
_DEFINES: Final = 4_000
"""Definitions in one batch."""
_PACK: Final = msgspec.msgpack.encode


@dataclass(frozen=True)
class Setting:
    """What a leaf records."""

    series: int
    counters: int
    gauges: int
    rate: int
    """Values a second of each instrument."""
    ranks: int = 0
    """Ranks with work and wait in the step of each second; 0: no steps."""
    by_node: bool = False
    """True if gauges have the label `node`."""
    relayed: int = 1
    """Nodes whose gauges and ranks a leaf sends."""
    refresh_hz: float = 1.0
    viewers: int = 0

    @property
    def instruments(self) -> int:
        return self.series + self.counters + self.gauges


def usual(rate: int, ranks: int, relayed: int = 1) -> Setting:
    of_nodes = 26 * relayed
    return Setting(2, 2, of_nodes, rate, ranks * relayed, by_node=True, relayed=relayed, refresh_hz=10.0, viewers=1)


def many(rate: int) -> Setting:
    return Setting(100, 100, 20, rate)


@dataclass(frozen=True)
class Second:
    """What a leaf sends of one second, without its steps and its account."""

    records: list[Define | NodeInterval]
    values: int

    def encoded(self, node: str) -> list[bytes]:
        """Return the records of one node, whose name is the value of the label `node`."""
        return [_PACK(_of_node(record, node)) for record in self.records]

    @property
    def events(self) -> int:
        return sum(not isinstance(record, Define) for record in self.records)


def _of_node(record: Define | NodeInterval, node: str) -> Define | NodeInterval:
    if not isinstance(record, Define) or not record.labels:
        return record
    return replace(record, labels={"node": f"{node}-{record.labels['node']}"})


def seconds(setting: Setting) -> tuple[Second, Second]:
    """Return the first second of a leaf, with its definitions, and a later one."""
    leaf = Aggregator(AggregatorConfig(leaf=True, series_cap=10_000))
    random = np.random.default_rng(7)
    made = []
    for number in range(2):
        leaf.apply([], 0, 0)
        _record(leaf, setting, random, number)
        now_ns = (number + 1) * 10**9
        leaf.roll(now_ns - 10**9, now_ns, 10**9)
        interval = leaf.leaf.take_interval()
        assert interval is not None
        made.append(Second(interval.records(number, now_ns - 10**9, now_ns, 3 << 20), interval.values))
    return made[0], Second(made[1].records, made[1].values - made[0].values)


def _record(leaf: Aggregator, setting: Setting, random: np.random.Generator, number: int) -> None:
    from telemetry.wire.codec import decode_batch

    ids = range(setting.instruments)
    kinds: list[Kind] = ["series"] * setting.series + ["counter"] * setting.counters + ["gauge"] * setting.gauges
    figures = setting.gauges // setting.relayed
    first = setting.series + setting.counters
    names = [at if at < first else first + (at - first) % figures for at in ids]
    labels: list[dict[str, str]] = [
        {"node": str((at - first) // figures)} if setting.by_node and at >= first else {} for at in ids
    ]
    defines = [Raw(_PACK(Define(at, f"metric{names[at]}", kinds[at], "ms", labels[at]))) for at in ids]
    rows: list[float] = []
    for at in ids:
        values = random.lognormal(2, 1, setting.rate) if at < setting.series else np.ones(setting.rate)
        for value in values.tolist():
            rows += [float(at), 0, value]
    now_ns = number * 10**9 + 5 * 10**8
    first_event = number * len(rows) // 3
    pieces = [defines[start : start + _DEFINES] for start in range(0, len(defines), _DEFINES)]
    for at, piece in enumerate(pieces):
        last = at == len(pieces) - 1
        seq = number * len(pieces) + at
        outgoing = OutgoingBatch(PROTOCOL, "one", seq, first_event, (0, 0), {}, piece, rows if last else [])
        batch = decode_batch(bytes(encode_batch(outgoing)))
        assert leaf.admit(batch, now_ns)
        leaf.apply([batch], now_ns, now_ns)


def step_part(ranks: range, step: int) -> StepPart:
    """Return a leaf's part of a step: the work and the wait of its ranks. Every rank works about 0.2 s."""
    work = {rank: 0.2 + (rank * 7_919 + step * 104_729) % 1_000 * 1e-5 for rank in ranks}
    values, of_ranks = {}, {}
    for name, by_rank in ((WORK, work), (WAIT, {rank: 0.25 - value for rank, value in work.items()})):
        least, most = min(by_rank, key=by_rank.__getitem__), max(by_rank, key=by_rank.__getitem__)
        total = sum(by_rank.values())
        extremes = (by_rank[least], by_rank[most], f"rank{least}", f"rank{most}")
        values[name] = PartialValue(len(by_rank), total, 0.0, *extremes, by_rank[ranks[0]], 1, f"rank{ranks[0]}")
        of_ranks[name] = list(by_rank.items())
    return StepPart(AXIS, step, values, time.time_ns(), len(ranks), ranks=of_ranks, number=step)  # type: ignore[arg-type]


class Viewer:
    """A process that reads and decodes each snapshot."""

    def __init__(self, endpoint: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _VIEWER, endpoint], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def end(self) -> tuple[int, float]:
        """Return the number of snapshots since the first one, and the time that they took."""
        out, _ = self._process.communicate(b"\n")
        count, span_s = out.split()
        return int(count), float(span_s)


_VIEWER: Final = """
import select, sys, time, telemetry
with telemetry.subscribe(sys.argv[1]) as snapshots:
    first = last = count = 0
    for snapshot in snapshots:
        last = time.monotonic()
        count += 1
        if count == 1:
            first = last
            print("up", flush=True)
        if select.select([sys.stdin], [], [], 0)[0]:
            break
print(count - 1, last - first)
"""


class Leaf:
    """One leaf: its two sockets and its numbers."""

    def __init__(self, context: Any, control: str, number: int, setting: Setting) -> None:
        self.name = f"leaf{number:05}"
        self._ranks = range(number * setting.ranks, (number + 1) * setting.ranks)
        self._nodes = setting.relayed if setting.relayed > 1 else 0
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

    def send(self, second: Second, encoded: list[bytes], roll: int, *, final: bool) -> int:
        """Send one second, its step and the account. Return the bytes. Waits while the pipe is full."""
        self.values += second.values
        more = [_PACK(step_part(self._ranks, roll))] if self._ranks else []
        account = NodeAccount(
            roll,
            self.values,
            Accounting(emitted=self.values, received=self.values, applied=self.values),
            producers=len(self._ranks) or 8,
            completeness="complete" if final else "incomplete",
            final=final,
            nodes=self._nodes,
        )
        records = [*map(Raw, encoded), *map(Raw, more), Raw(_PACK(account))]
        events = [0] * (len(records) - second.events - len(more) - 1) + [1] * (second.events + len(more) + 1)
        anchor = (time.monotonic_ns(), time.time_ns())
        sent = 0
        for start in range(0, len(records), _DEFINES):
            piece = records[start : start + _DEFINES]
            frame = encode_batch(OutgoingBatch(PROTOCOL, self.name, self.seq, self.first, anchor, {}, piece, []))
            self._events.send(frame)
            self.seq += 1
            self.first += sum(events[start : start + _DEFINES])
            sent += len(frame)
        return sent

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

    @property
    def socket(self) -> Any:
        return self._control

    def answer_search(self) -> None:
        """Tell the root that this leaf can't give its values."""
        search = decode_response(self._control.recv())
        if isinstance(search, Search):
            self.tell(Found(producer=self.name, number=search.number, reason="its values were never recorded"))

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


def measure(setting: Setting, leaves: int, length_s: int, middle: int = 0) -> dict[str, float]:
    """Run one root and so many leaves for so many seconds, with `middle` aggregators in between."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    first, later = seconds(setting)
    with ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        hertz = ("--refresh-hz", str(setting.refresh_hz))
        process, facts = undo.enter_context(
            serve(folder, "--name", "root", "--nodes", str(middle or leaves), *hertz)
        )
        between = [
            undo.enter_context(
                serve(folder, "--name", f"m{at}", "--node", f"m{at}", "--upstream", facts["endpoint"])
            )
            for at in range(middle)
        ]
        ends = [told["endpoint"] for _, told in between] or [facts["endpoint"]]
        context = undo.enter_context(zmq.Context(io_threads=1))
        context.set(zmq.MAX_SOCKETS, 4 * leaves)
        context.linger = 0
        every = [Leaf(context, ends[number % len(ends)], number, setting) for number in range(leaves)]
        undo.callback(context.destroy, 0)
        for leaf in every:
            leaf.welcome()
        for leaf in every:
            leaf.subscribed()
        for leaf in every:
            leaf.send(first, first.encoded(leaf.name), 0, final=False)
        viewers = [Viewer(facts["endpoint"]) for _ in range(setting.viewers)]
        began, cpu_before = time.monotonic(), cpu_s(process.pid)
        between_before = sum(cpu_s(child.pid) for child, _ in between)
        sent = _send(every, later, began, length_s)
        lasted_s = time.monotonic() - began
        used_s = cpu_s(process.pid) - cpu_before
        between_s = sum(cpu_s(child.pid) for child, _ in between) - between_before
        seen = [viewer.end() for viewer in viewers]
        snapshot = _status(facts["endpoint"])
        ending = time.time()
        for leaf in every:
            leaf.end()
        for leaf in every:
            leaf.ended()
        peak = peak_mib(process.pid)
        with ControlClient(facts["endpoint"]) as client:
            client.request(Stop(reason="measured"), 30.0)
        _answer_searches(every, process)
        result = Path(facts["dir"]) / "final_snapshot.json"
        final = msgspec.json.decode(result.read_bytes(), type=MetricsSnapshot)
        ending_s = result.stat().st_mtime - ending
        _check(final, setting, leaves, length_s + 1, middle)
    figures = {
        "leaves": leaves,
        "MB/s of the leaves": sent / lasted_s / 1e6,
        "root, % of a core": 100 * used_s / lasted_s,
        "root, MiB": peak,
        "ticks": snapshot.cost.ticks,
        "late ticks": snapshot.cost.ticks_late,
        "tick, ms": snapshot.cost.tick_ms,
        "longest tick, ms": snapshot.cost.tick_ms_max,
        "senders behind, s": lasted_s - length_s,
        "end to result, s": ending_s,
    }
    if seen:
        figures["snapshots a second at the viewer"] = sum(count / span_s for count, span_s in seen) / len(seen)
    if middle:
        figures["a middle one, % of a core"] = 100 * between_s / lasted_s / middle
    return figures


def _send(every: list[Leaf], later: Second, began: float, length_s: int) -> int:
    """Send so many seconds of all leaves, evenly spread. Return the bytes."""
    sent = 0
    encoded = later.encoded("")
    for second in range(length_s):
        for at, leaf in enumerate(every):
            due = began + second + at / len(every)
            time.sleep(max(0.0, due - time.monotonic()))
            sent += leaf.send(later, encoded, second + 1, final=second == length_s - 1)
            leaf.tell(Ping(id=2, producer=leaf.name, mono_ns=time.monotonic_ns()))
            leaf.drain()
    return sent


def _answer_searches(every: list[Leaf], process: subprocess.Popen[bytes]) -> None:
    """Answer the root until it has ended."""
    of_socket = {leaf.socket: leaf for leaf in every}
    poller = zmq.Poller()
    for socket in of_socket:
        poller.register(socket, zmq.POLLIN)
    until = time.monotonic() + 180
    while process.poll() is None and time.monotonic() < until:
        for socket, _ in poller.poll(100):
            of_socket[socket].answer_search()


def _status(endpoint: str) -> MetricsSnapshot:
    with ControlClient(endpoint) as client:
        answer = client.request(GetStatus(), 30.0)
    assert isinstance(answer, Status)
    return answer.snapshot


def _check(final: MetricsSnapshot, setting: Setting, leaves: int, seconds: int, middle: int) -> None:
    per_instrument = leaves * setting.rate * seconds
    expected = per_instrument * setting.instruments
    assert final.completeness == "complete", (final.completeness, final.warnings[:5])
    assert final.accounting.applied == expected, (final.accounting, expected)
    assert {stat.count for stat in final.series} == {per_instrument}
    assert {stat.value for stat in final.counters} == {per_instrument}
    assert len(final.series) == setting.series
    assert len(final.nodes) == (middle or leaves)
    below = leaves * setting.relayed if setting.relayed > 1 else 0
    assert sum(1 + node.nodes for node in final.nodes) == leaves + middle + below
    spreads = [gauge.over_nodes for gauge in final.gauges if gauge.over_nodes is not None]
    if setting.by_node and leaves * setting.relayed > limits.NODES_APART and not middle:
        assert {spread.nodes for spread in spreads} == {leaves * setting.relayed}
    if setting.ranks:
        (axis,) = final.axes
        assert axis.closed == seconds, axis
        assert not axis.timeouts, axis


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=("usual", "many"), default="usual")
    parser.add_argument("--leaves", type=int, default=1_250)
    parser.add_argument("--rate", type=int, default=0, help="values/s of each instrument (usual 1, many 100)")
    parser.add_argument("--ranks", type=int, default=1, help="ranks of a leaf, in the usual setting")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--relayed", type=int, default=1, help="nodes behind each leaf, in the usual setting")
    parser.add_argument("--middle", type=int, default=0, help="aggregators between the leaves and the root")
    parser.add_argument("--tiny", action="store_true", help="three small runs, too short for figures")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.2f} before\n")
    setting = usual(args.rate or 1, args.ranks, args.relayed) if args.setting == "usual" else many(args.rate or 100)
    if args.tiny:
        runs = [(many(10), 3, 1, 0), (many(10), 3, 1, 2), (usual(1, 2), 3, 2, 0)]
    else:
        runs = [(setting, args.leaves, args.seconds, args.middle)]
    for run in runs:
        print("| figure | value |\n|---|---|")
        for what, figure in measure(*run).items():
            print(f"| {what} | {figure:,.1f} |")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
