"""A run that goes on second by second as a test says, its directory, and its aggregator's face on real sockets."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.backends.sources.source import Position, Read, Source
from telemetry.common.file_lock import FileLock
from telemetry.daemon.control import read_history
from telemetry.store.final_snapshot import write_final
from telemetry.store.history import RETENTION_S, HistoryReader, HistoryWriter
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.testing.builders import MONO_NS, WALL_NS, batch
from telemetry.transport import Hub, plan
from telemetry.wire import control as msg
from telemetry.wire.codec import decode_request, encode_control, encode_snapshot, encode_stream_record
from telemetry.wire.events import ClosedStep, Define, Streamed, StreamRecord
from telemetry.wire.snapshot import MetricsSnapshot
from telemetry.wire.version import PROTOCOL

SECOND = 1_000_000_000
RUN_ID = "aaaa1111"
PERCENTILES = ("50", "99")
LATENCY, REQUESTS, LOAD = range(3)
DEFINITIONS = (
    Define(LATENCY, "latency", "series", "ms", {"route": "/a"}),
    Define(REQUESTS, "requests", "counter"),
    Define(LOAD, "load", "gauge"),
)
Row = tuple[int, float]


class Going:
    """The files of a run, written as its aggregator does. Its directory is locked until `end` or `die`."""

    def __init__(
        self, root: Path, *, history: bool = True, retention_s: Mapping[int, float | None] = RETENTION_S
    ) -> None:
        self.directory = RunDirectory.create(root, "job", RUN_ID, WALL_NS)
        config = {"run": {"percentiles": list(PERCENTILES)}}
        self.directory.write_manifest(manifest_for(self.directory, "job", RUN_ID, [], "", config=config))
        self.wall_ns = WALL_NS
        self.records: list[StreamRecord] = []
        self.log = RecordLog(self.directory.records)
        self._retention_s = retention_s
        self._history = HistoryWriter(self.directory.history, retention_s) if history else None
        self._aggregator = Aggregator(AggregatorConfig(percentiles=PERCENTILES, window_s=3))
        self._aggregator.hello(msg.Hello(producer="p", name="p"), MONO_NS, WALL_NS)
        self._seconds = self._events = 0
        self._lock: FileLock | None = self.directory.lock()

    def second(
        self, *rows: Row, define: Sequence[Define] = (), lasting_ns: int = SECOND, known: bool = True
    ) -> None:
        """One more: what is recorded in it, and whether the history has it."""
        records = [*(DEFINITIONS if not self._seconds else ()), *define]
        values = [(row, MONO_NS, value) for row, value in rows]
        sent = batch(seq=self._seconds, first=self._events, records=records, rows=values)
        self._events += len(rows)
        self._aggregator.admit(sent, MONO_NS)
        self._aggregator.apply([sent], MONO_NS, self.wall_ns)
        interval = self._aggregator.roll(self.wall_ns, self.wall_ns + lasting_ns, lasting_ns)
        self.wall_ns += lasting_ns
        if self._history is not None and known:
            self._history.append(interval, self._aggregator.keys(), self._seconds)
        self._seconds += 1

    def say(self, *records: Streamed, logged: bool = True) -> list[StreamRecord]:
        """One more record each, now."""
        first = len(self.records)
        made = [
            StreamRecord(PROTOCOL, RUN_ID, seq, "p", self.wall_ns, record)
            for seq, record in enumerate(records, first)
        ]
        self.records += made
        if logged:
            self.log.append(made)
        return made

    def snapshot(self, **facts: Any) -> MetricsSnapshot:
        said: dict[str, Any] = {
            "run_id": RUN_ID,
            "name": "job",
            "epoch": "e1",
            "state": "LIVE",
            "seq": self._seconds,
        }
        said |= {"started_ns": WALL_NS, "started_mono_ns": MONO_NS, "directory": str(self.directory.path)} | facts
        made = self._aggregator.snapshot(SnapshotFacts(**said), MONO_NS + self.wall_ns - WALL_NS, self.wall_ns)
        return replace(made, window_s=3.0)

    def end(self) -> MetricsSnapshot:
        """End the run with a result, after which no process holds the directory."""
        if self._history is not None:
            self._history.close()
        result = self.snapshot(state="COMPLETE")
        write_final(result, [self.directory.final])
        self.die()
        return result

    def die(self) -> None:
        self.log.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def come_back(self) -> None:
        """Take the files again as another aggregator that goes on with them."""
        self._lock = self.directory.lock()
        self.log = RecordLog(self.directory.records, resume=True)
        if self._history is not None:
            self._history = HistoryWriter(self.directory.history, self._retention_s, resume=True)


class Face:
    """Answers what sources ask, and publishes snapshots and records. May be stopped, and another made there."""

    def __init__(self, folder: Path, run: Going) -> None:
        self.run = run
        self.told = run.snapshot()
        self.history = run.directory.history
        self.log: list[StreamRecord] = list(run.records)
        """What it has of the stream, and would tell again."""
        self._published: list[StreamRecord] = []
        self._repeated: list[StreamRecord] = []
        self._stopping = threading.Event()
        self._hub = Hub(plan(f"ipc://{folder}/c", RUN_ID))
        self.endpoint = self._hub.endpoints.control
        self._thread = threading.Thread(target=self._serve, name="face")
        self._thread.start()

    def say(self, *records: Streamed, logged: bool = True) -> None:
        """Logged before it is published, or published again and again: who subscribes may need a moment."""
        made = self.run.say(*records, logged=logged)
        if logged:
            self.log += made
            self._published += made
        else:
            self._repeated += made

    def tell(self, **facts: Any) -> None:
        """The snapshot of now, from now on."""
        self.told = self.run.snapshot(**facts)

    def stop(self) -> None:
        """Stop the aggregator for good. A second call is allowed."""
        self._stopping.set()
        self._thread.join()
        self._hub.close()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            self._hub.wait(0.01)
            self._hub.publish_snapshot(encode_snapshot(self.told))
            while self._published:
                self._hub.publish_record(encode_stream_record(self._published.pop(0)))
            for record in list(self._repeated):
                self._hub.publish_record(encode_stream_record(record))
            for peer, data in self._hub.receive_control(100):
                request = decode_request(data)
                self._hub.send_control(peer, encode_control(replace(self._answer(request), id=request.id)))

    def _answer(self, request: msg.Request) -> msg.Response:
        where, told = self._hub.endpoints, self.told
        if isinstance(request, msg.Hello):
            return msg.Welcome(
                run_id=told.run_id,
                name=told.name,
                epoch=told.epoch,
                state=told.state,
                events=where.events,
                snapshots=where.snapshots,
                records=where.records,
                directory=told.directory,
                refresh_hz=50.0,
            )
        if isinstance(request, msg.Ping):
            return msg.Pong(epoch=told.epoch, state=told.state)
        if isinstance(request, msg.GetStatus):
            return msg.Status(snapshot=told)
        if isinstance(request, msg.Catchup):
            page = [record for record in self.log if record.seq >= request.from_seq]
            last = self.log[-1].seq if self.log else -1
            return msg.CaughtUp(records=page, next_seq=last + 1, last_seq=last)
        if isinstance(request, msg.GetHistory) and self.history.is_dir():
            reader = HistoryReader(self.history)
            return read_history(reader, request, reader.keys() if request.start_ns == 0 else [])
        return msg.Error(code="unavailable", message="could not be read: there is no history")


def closed(number: int, axis: str = "train", **facts: Any) -> ClosedStep:
    return ClosedStep(axis, number, {"loss": float(number)}, **facts)


def drained(source: Source, most: int = 1_000) -> list[Read]:
    """All that is left of a run that is over."""
    found: list[Read] = []
    while not source.over:
        found += source.read(most, 1.0)
    source.close()
    return found


def keys(reads: Sequence[Read]) -> list[str]:
    return [read.item.key for read in reads]


class ListSource:
    """A source that hands out the given reads and is then over, unless `goes_on` is set."""

    def __init__(self, reads: Sequence[Read], run: Any, position: Position) -> None:
        self.run = run
        self.position = position
        self.missed = 0
        self.left_out: dict[str, int] = {}
        self.closed = False
        self.goes_on = False
        self._reads = list(reads)
        self._all = {read.item.key: read.item for read in reads}

    @property
    def known(self) -> int:
        return len(self._all)

    @property
    def over(self) -> bool:
        return not self._reads and not self.goes_on

    def read(self, most: int, timeout_s: float) -> list[Read]:
        found, self._reads = self._reads[:most], self._reads[most:]
        if found:
            self.position = found[-1].position
        return found

    def again(self, number: int) -> Any:
        return self._all.get(f"r{number}")

    def notes(self) -> list[str]:
        return []

    def close(self) -> None:
        self.closed = True
