"""The simplest design taken literally: one self-describing message for each event, `record_value` on arrival.

Stands in for systems that publish every event on its own.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import zmq

from benchmarks.load import pace
from benchmarks.peers import HIGHEST_NS, NANOSECONDS, Recorder, cycle
from benchmarks.worker import Measure

NAME: Final = "one ZeroMQ message per event + HdrHistogram"
SERIES: Final = 100


class Event(msgspec.Struct, tag="event"):
    series: str
    time_ns: int
    value: int
    kind: str
    unit: str
    seq: int


class Sender:
    """Waits for the subscription, then loses nothing that it does not count: XPUB_NODROP and EAGAIN."""

    def __init__(self, address: str) -> None:
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.XPUB)
        self.socket.setsockopt(zmq.XPUB_NODROP, 1)
        self.socket.connect(address)
        self.socket.recv()
        self.sent = 0
        self.dropped = 0
        self._names = [f"latency.{index}" for index in range(SERIES)]
        self._encode = msgspec.msgpack.Encoder().encode

    def record(self, value: int) -> None:
        name = self._names[self.sent % SERIES]
        event = Event(name, time.perf_counter_ns(), value, "series", "ns", self.sent)
        self.sent += 1
        try:
            self.socket.send(self._encode(event), zmq.NOBLOCK)
        except zmq.Again:
            self.dropped += 1


class Receiver:
    """Receives for ever on a thread of its own; the process does nothing else."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tm", ignore_cleanup_errors=True)
        self.address = f"ipc://{self._folder.name}/events"
        self.received = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        from hdrh.histogram import HdrHistogram

        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.SUB)
        socket.subscribe(b"")
        socket.bind(self.address)
        decode = msgspec.msgpack.Decoder(Event).decode
        histograms = {f"latency.{index}": HdrHistogram(1, HIGHEST_NS, 3) for index in range(SERIES)}
        while True:
            event = decode(socket.recv())
            histograms[event.series].record_value(event.value)
            self.received += 1

    def state(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "received": self.received,
            "cpu_ns": time.process_time_ns(),
            "time_ns": time.monotonic_ns(),
        }


def sender() -> Measure:
    senders: dict[str, Sender] = {}

    def measure(address: str, seconds: float, rate: int = 0) -> dict[str, Any]:
        one = senders.setdefault(address, Sender(address)) if address not in senders else senders[address]
        sent, dropped = one.sent, one.dropped
        begin = time.monotonic_ns()
        pace(cycle(one.record, NANOSECONDS), seconds, rate)
        span_s = (time.monotonic_ns() - begin) / 1e9
        return {"sent": one.sent - sent, "dropped": one.dropped - dropped, "seconds": span_s}

    return measure


def receiver() -> Measure:
    return Receiver().state


def recorder() -> Recorder:
    """For measurements of the sending side alone: a receiver process of its own drains the messages."""
    from benchmarks.harness import Worker

    other_end = Worker(__name__, "receiver")
    one = Sender(other_end.measure()["address"])
    _KEPT.append(other_end)
    return one.record


_KEPT: Final[list[Any]] = []
"""Receiver processes live as long as this one; they end with its pipes."""

ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {"sender": sender, "receiver": receiver}
