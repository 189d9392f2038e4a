"""A run while it goes on, with its directory and without, and whatever becomes of its aggregator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.backends.going import LATENCY, REQUESTS, Face, Going, closed, drained, keys

from telemetry import limits
from telemetry.backends.items import Live, Reading
from telemetry.backends.sources import live as source_live
from telemetry.backends.sources.disk import DiskSource
from telemetry.backends.sources.live import WINDOWS, LiveSource, directory_here
from telemetry.backends.sources.source import Position, Read
from telemetry.errors import EndpointError
from telemetry.testing.builders import WALL_NS
from telemetry.wire.snapshot import MetricsSnapshot

WAIT_S = 15.0


@pytest.fixture
def going(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Going]:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    made = Going(tmp_path / "runs")
    yield made
    made.die()


@pytest.fixture
def make_face(short_dir: Path, going: Going) -> Iterator[Callable[[], Face]]:
    """Always at the same address; the one before must have been stopped."""
    made: list[Face] = []

    def make() -> Face:
        made.append(Face(short_dir, going))
        return made[-1]

    yield make
    for face in made:
        face.stop()


@pytest.fixture
def face(make_face: Callable[[], Face]) -> Face:
    return make_face()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is on another machine."""
    monkeypatch.setattr(source_live, "directory_here", lambda told: None)


def source(face: Face, position: Position | None = None, *, live: bool = False, every_s: float = 2.0) -> LiveSource:
    _OPEN.append(LiveSource(face.endpoint, position or Position(), every_s=every_s, live=live))
    return _OPEN[-1]


_OPEN: list[LiveSource] = []


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    """Close all sources that a test has opened, after the test."""
    yield
    while _OPEN:
        _OPEN.pop().close()


def some(of: LiveSource, count: int) -> list[Read]:
    """The next ones, as they come."""
    found: list[Read] = []
    while len(found) < count:
        got = of.read(count - len(found), WAIT_S)
        assert got, f"only {keys(found)}"
        found += got
    return found


def end(going: Going, face: Face) -> None:
    going.end()
    face.tell(state="COMPLETE")


def test_records_come_as_they_are_made(face: Face) -> None:
    """Records come in order and once, also those of before and those that the log lacks."""
    face.run.say(closed(0))
    face.log += face.run.records
    of = source(face)
    assert keys(some(of, 1)) == ["r0"]
    face.say(closed(1), closed(2))
    face.say(closed(3), logged=False)
    assert keys(some(of, 3)) == ["r1", "r2", "r3"]
    assert of.read(10, 0.05) == []
    assert (of.known, of.missed, of.over) == (4, 0, False)


def test_it_ends_with_the_run(going: Going, face: Face) -> None:
    """The result comes after the last record and the last reading, as from disk, item by item."""
    of = source(face)
    for number in range(5):
        face.say(closed(number))
        going.second((LATENCY, 1.0 + number), (REQUESTS, 1.0))
    first = some(of, 3)
    end(going, face)
    found = first + drained(of)
    by_disk = drained(from_disk(going))
    assert {read.item.key: read.item for read in found} == {read.item.key: read.item for read in by_disk}
    assert len(found) == len(by_disk) == 9
    assert keys(found)[-1] == "final"
    assert of.position == by_disk[-1].position
    assert of.run == from_disk(going).run


def from_disk(going: Going) -> DiskSource:
    return DiskSource(going.directory, Position(), every_s=2.0)


@pytest.mark.slow
def test_an_aggregator_that_comes_back(going: Going, face: Face, make_face: Callable[[], Face]) -> None:
    """A source waits for an aggregator that comes back.

    No record of the one before or the next one is missing or comes twice.
    """
    of = source(face)
    face.say(closed(0))
    assert keys(some(of, 1)) == ["r0"]
    face.say(closed(1))
    going.die()
    face.stop()
    assert keys(some(of, 1)) == ["r1"]
    assert of.read(1, 1.5) == []
    going.come_back()
    again = make_face()
    again.say(closed(2))
    assert keys(some(of, 1)) == ["r2"]
    again.say(closed(3), logged=False)
    assert keys(some(of, 1)) == ["r3"]
    assert (of.over, of.missed) == (False, 0)


@pytest.mark.slow
@pytest.mark.parametrize("result", [True, False])
def test_an_aggregator_that_is_gone_for_good(
    going: Going, face: Face, monkeypatch: pytest.MonkeyPatch, result: bool
) -> None:
    """The records of an aggregator that is gone come from its directory. A run without a result is reported."""
    monkeypatch.setattr(limits, "RETURN_S", 0.5)
    of = source(face)
    face.say(closed(0))
    going.second((LATENCY, 1.0))
    assert keys(some(of, 1)) == ["r0"]
    face.say(closed(1))
    if result:
        going.end()
    going.die()
    face.stop()
    found = keys(drained(of))
    assert found[:2] == ["r1", f"t{WALL_NS + 10**9}"]
    assert found[2:] == (["final"] if result else [])
    assert any("the run died without a result" in note for note in of.notes()) is not result


@pytest.mark.usefixtures("elsewhere")
def test_a_run_of_another_machine(going: Going, face: Face) -> None:
    """All that is needed is told by the aggregator, while it is there: also the last readings, and the result."""
    of = source(face)
    assert of.run.directory is None
    for number in range(3):
        face.say(closed(number))
        going.second((LATENCY, 1.0), (REQUESTS, 2.0))
    result = going.end()
    face.tell(state="COMPLETE")
    found = []
    while not of.over:
        found += of.read(1, WAIT_S)
        if of._settled:
            face.stop()
    by_key = {read.item.key: read.item for read in found}
    assert sorted(by_key) == ["final", "r0", "r1", "r2", f"t{WALL_NS + 2 * 10**9}", f"t{WALL_NS + 3 * 10**9}"]
    last = by_key["final"]
    assert isinstance(last, Reading)
    assert last.counters[0].value == result.counters[0].value
    assert (of.missed, of.notes()) == (0, [])


@pytest.mark.slow
@pytest.mark.usefixtures("elsewhere")
def test_an_aggregator_of_another_machine_that_is_gone(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of a lost run on another machine is unknown, and a note tells so."""
    monkeypatch.setattr(limits, "RETURN_S", 0.5)
    of = source(face)
    face.say(closed(0))
    assert keys(some(of, 1)) == ["r0"]
    face.stop()
    assert drained(of) == []
    assert not of.position.final_done
    assert "no result" in of.notes()[-1]


def test_without_a_history_there_are_windows(tmp_path: Path, short_dir: Path) -> None:
    """One at each multiple of the cadence that snapshots have come past, and a word about it."""
    going = Going(tmp_path / "other", history=False)
    face = Face(short_dir, going)
    going.second((LATENCY, 1.0))
    face.tell()
    of = source(face)
    assert of.read(10, 0.3) == []
    for _ in range(4):
        going.second((LATENCY, 3.0), (REQUESTS, 1.0))
    face.tell()
    (read,) = some(of, 1)
    assert isinstance(read.item, Reading)
    assert (read.item.elapsed_s, read.item.seconds, read.item.series[0].count) == (4.0, 3.0, 3)
    assert of.read(10, 0.3) == []
    assert of.notes() == [WINDOWS]
    assert of.position.reading_until_ns == WALL_NS + 4 * 10**9
    face.stop()
    going.die()


def test_snapshots_for_those_who_are_asked(going: Going, face: Face) -> None:
    """The newest one, and at the end the result; a position never moves by it."""
    of = source(face, live=True)
    (read,) = some(of, 1)
    assert isinstance(read.item, Live)
    assert read.position == Position()
    going.second((LATENCY, 1.0))
    end(going, face)
    found = drained(of)
    live = [read.item for read in found if isinstance(read.item, Live)]
    assert live[-1].snapshot.state == "COMPLETE"
    assert keys(found)[-1] == "final"


def test_a_cadence_of_its_own_goes_on_from_a_position(going: Going, face: Face) -> None:
    """A writer that was killed reads nothing twice."""
    for number in range(6):
        face.say(closed(number))
        going.second((LATENCY, 1.0))
    position = Position(next_record=4, reading_until_ns=WALL_NS + 4 * 10**9)
    of = source(face, position)
    assert keys(some(of, 2)) == ["r4", "r5"]
    end(going, face)
    assert keys(drained(of)) == [f"t{WALL_NS + 6 * 10**9}", "final"]


def test_nobody_there(short_dir: Path) -> None:
    """Is an error at once, and no socket is left."""
    with pytest.raises(EndpointError):
        LiveSource(f"ipc://{short_dir}/nobody", Position(), every_s=1.0)


def test_whose_directory_it_is(going: Going, tmp_path: Path) -> None:
    """The same path may be another run's on another machine."""
    told = going.snapshot()
    assert directory_here(told) == going.directory
    assert directory_here(replace(told, run_id="other")) is None
    assert directory_here(replace(told, directory="")) is None
    assert directory_here(MetricsSnapshot(run_id="r", name="n", directory=str(tmp_path / "nowhere"))) is None
