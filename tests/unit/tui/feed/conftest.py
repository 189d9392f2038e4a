"""A run whose history, snapshots and aggregator a test makes as it likes, and what a feed told of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest

from telemetry.daemon.control import read_history
from telemetry.statistics.hdr.layout import Layout
from telemetry.store.history import RETENTION_S, HistoryReader, HistoryWriter
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.transport import Hub, plan
from telemetry.tui.feed.news import News
from telemetry.wire import control as msg
from telemetry.wire.codec import decode_request, encode_control, encode_snapshot
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat, WindowStat

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
_LAYOUT = Layout.of(3)
_N = TypeVar("_N", bound=News)


class History:
    """The history of a run as its aggregator writes it, second by second. Values are in ns."""

    def __init__(self, directory: Path, retention_s: Mapping[int, float | None] = RETENTION_S) -> None:
        self.directory = directory
        self.end_ns = START
        self._writer = HistoryWriter(directory, retention_s)
        self._indices: dict[str, int] = {}

    def add(self, values: Mapping[str, Sequence[int]], seconds: int = 1) -> None:
        """The next seconds, each with these values of series that are named so, in order of their first value."""
        for name in values:
            self._indices.setdefault(name, len(self._indices))
        keys = [
            SeriesKey(index=index, name=name, kind="series", unit="ns") for name, index in self._indices.items()
        ]
        columns = _columns({self._indices[name]: found for name, found in values.items() if found})
        for _ in range(seconds):
            self._writer.append(Interval(self.end_ns, self.end_ns + SECOND, columns), keys)
            self.end_ns += SECOND

    def close(self) -> None:
        self._writer.close()


def _columns(values: Mapping[int, Sequence[int]]) -> SeriesColumns:
    found = sorted(values.items())
    cells = [np.unique(_LAYOUT.slot_of(np.array(one, np.float64)), return_counts=True) for _, one in found]

    def column(kind: str, *numbers: Any) -> bytes:
        return np.array(list(chain(*numbers))).astype(kind).tobytes()

    return SeriesColumns(
        column("<u4", (index for index, _ in found)),
        column("<u8", (len(one) for _, one in found)),
        column("<f8", (sum(one) for _, one in found)),
        column("<f8", (min(one) for _, one in found)),
        column("<f8", (max(one) for _, one in found)),
        column("<u4", (len(slots) for slots, _ in cells)),
        column("<u4", *(slots for slots, _ in cells)),
        column("<u4", *(counts for _, counts in cells)),
    )


class Station:
    """An aggregator's face on real sockets: publishes `snapshot` every 20 ms and answers observers."""

    def __init__(self, folder: Path, snapshot: MetricsSnapshot, history: Path | None = None) -> None:
        self.snapshot = snapshot
        self.history = history
        self.refresh_hz = 50.0
        self.publishing = True
        self.answering = True
        self.asked: list[msg.Request] = []
        self.keys: list[SeriesKey] = []
        self._hub = Hub(plan(f"ipc://{folder}/c", "r"))
        self.endpoint = self._hub.endpoints.control
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="station")
        self._thread.start()

    def stop(self) -> None:
        """Stop the station, so that it is gone. A second call does no harm."""
        self._stopping.set()
        self._thread.join()
        self._hub.close()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            self._hub.wait(0.02)
            if self.publishing:
                self._hub.publish_snapshot(encode_snapshot(self.snapshot))
            for peer, data in self._hub.receive_control(100) if self.answering else ():
                request = decode_request(data)
                self.asked.append(request)
                answer = msgspec.structs.replace(self._answer(request), id=request.id)
                self._hub.send_control(peer, encode_control(answer))

    def _answer(self, request: msg.Request) -> msg.Response:
        where = self._hub.endpoints
        if isinstance(request, msg.Hello):
            return msg.Welcome(
                run_id=self.snapshot.run_id,
                name=self.snapshot.name,
                epoch=self.snapshot.epoch,
                state=self.snapshot.state,
                events=where.events,
                snapshots=where.snapshots,
                records=where.records,
                refresh_hz=self.refresh_hz,
            )
        if isinstance(request, msg.GetStatus):
            return msg.Status(snapshot=self.snapshot)
        if isinstance(request, msg.Stop):
            return msg.Stopping(state="DRAINING")
        if isinstance(request, msg.GetHistory) and self.history is not None:
            reader = HistoryReader(self.history)
            return read_history(reader, request, reader.keys() if request.start_ns == 0 else [])
        return msg.Error(code="unavailable", message="could not be read: there is no history")


class Told:
    """A list of the news that a feed has passed on, in order. An instance is the `tell` of the feed."""

    def __init__(self) -> None:
        self.news: list[News] = []

    def __call__(self, news: News) -> None:
        self.news.append(news)

    def of(self, kind: type[_N]) -> list[_N]:
        return [one for one in list(self.news) if isinstance(one, kind)]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def run(short_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """The directory of run `r1`, with a manifest and nothing else in it."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    made = RunDirectory.create(short_dir / "runs", "job", "r1", START)
    made.write_manifest(manifest_for(made, "job", "r1", [], ""))
    return made


@pytest.fixture
def make_history(run: RunDirectory) -> Iterator[Callable[..., History]]:
    """`make_history(retention_s)` begins that of `run`."""
    made: list[History] = []

    def make(retention_s: Mapping[int, float | None] = RETENTION_S) -> History:
        made.append(History(run.history, retention_s))
        return made[-1]

    yield make
    for history in made:
        history.close()


@pytest.fixture
def history(make_history: Callable[..., History]) -> History:
    """Return the history of `run`, kept as by default."""
    return make_history()


@pytest.fixture
def make_station(short_dir: Path) -> Iterator[Callable[..., Station]]:
    """`make_station(snapshot, history=None)`: always at the same address; the one before must have been stopped."""
    made: list[Station] = []

    def make(snapshot: MetricsSnapshot, history: Path | None = None) -> Station:
        made.append(Station(short_dir, snapshot, history))
        return made[-1]

    yield make
    for station in made:
        station.stop()


@pytest.fixture
def snapshot_of() -> Callable[..., MetricsSnapshot]:
    """`snapshot_of(time_ns, state="LIVE", **facts)`: of run `r1`, whose series `a` has a window."""

    def make(time_ns: int = START, **facts: Any) -> MetricsSnapshot:
        window = WindowStat(seconds=10.0, count=4, percentiles={"50": 20.0, "99": 90.0})
        stat = SeriesStat(name="a", unit="ns", count=4, percentiles={"50": 20.0, "99": 90.0}, window=window)
        given = {"run_id": "r1", "name": "job", "epoch": "e1", "state": "LIVE", "series": [stat]} | facts
        return MetricsSnapshot(time_ns=time_ns, **given)

    return make
