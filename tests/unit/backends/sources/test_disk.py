"""A run from its directory alone, whatever became of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.backends.going import LATENCY, PERCENTILES, Going, closed, drained, keys

from telemetry.backends.items import Live, Reading, Step
from telemetry.backends.sources.disk import NO_HISTORY, DiskSource, percentiles_of
from telemetry.backends.sources.source import Position
from telemetry.config.schema import PERCENTILES as USUAL
from telemetry.errors import RunDirectoryError
from telemetry.testing.builders import WALL_NS
from telemetry.wire.events import Expect, Params
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat


@pytest.fixture
def going(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Going]:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    made = Going(tmp_path)
    yield made
    made.die()


def source(going: Going, position: Position | None = None, *, live: bool = False) -> DiskSource:
    return DiskSource(going.directory, position or Position(), every_s=2.0, live=live)


def play(going: Going, seconds: int = 5, begin: int = 0) -> None:
    for second in range(begin, begin + seconds):
        going.say(Expect("requests", 9.0), closed(second))
        going.second((LATENCY, 1.0))


def test_a_finished_run_comes_in_order(going: Going) -> None:
    """Steps and readings by their times, then the result; records that are no items are passed over."""
    play(going)
    going.end()
    of = source(going)
    found = drained(of)
    names = [key if key.startswith("r") else key[:1] for key in keys(found)]
    assert names == ["r1", "r3", "t", "r5", "r7", "t", "r9", "t", "f"]
    last = found[-1].item
    assert isinstance(last, Reading)
    assert (last.final, last.series[0].count) == (True, 5)
    assert of.position == Position(next_record=10, reading_until_ns=WALL_NS + 5 * 10**9, final_done=True)
    assert (of.known, of.missed, of.notes()) == (10, 0, [])


def test_it_goes_on_from_any_position(going: Going) -> None:
    """A source goes on from the position after any item with the same rest.

    After the last item there is no rest.
    """
    play(going)
    going.end()
    whole = drained(source(going))
    for number, read in enumerate(whole):
        assert drained(source(going, read.position), most=2) == whole[number + 1 :]


def test_what_is_known_of_the_run(going: Going) -> None:
    """The facts of a run come from its result, and from its manifest before there is a result."""
    before = source(going).run
    going.say(Params({"lr": 0.1}))
    play(going)
    going.end()
    after = source(going).run
    for facts in (before, after):
        assert (facts.run_id, facts.name, facts.started_ns) == ("aaaa1111", "job", WALL_NS)
        assert facts.directory == going.directory.path
        assert facts.host


def test_a_run_that_goes_on_is_followed(going: Going) -> None:
    """A source brings what is added to a run and is not over while somebody holds the directory."""
    play(going, 1)
    of = source(going)
    assert keys(of.read(10, 0.05)) == ["r1"]
    assert of.read(10, 0.05) == []
    play(going, 1, 1)
    assert keys(of.read(10, 5.0)) == ["r3"]
    assert not of.over
    going.end()
    assert keys(drained(of))[-1] == "final"


def test_a_run_that_died_has_no_result(going: Going) -> None:
    """All it left comes, and it is said why there is no more; what comes later goes on from there."""
    play(going)
    going.die()
    of = source(going)
    found = drained(of)
    assert keys(found)[-1].startswith("t")
    assert not of.position.final_done
    (note,) = of.notes()
    assert "the run died without a result" in note
    going.come_back()
    play(going, 2, 5)
    going.end()
    rest = drained(source(going, of.position))
    assert [read.item.step for read in rest if isinstance(read.item, Step)] == [5, 6]
    assert keys(rest)[-1] == "final"


def test_without_a_history_there_is_the_result(tmp_path: Path) -> None:
    """A source without a history has the result at the end, and a note about that, once."""
    going = Going(tmp_path / "other", history=False)
    play(going)
    going.end()
    of = source(going)
    assert keys(drained(of)) == ["r1", "r3", "r5", "r7", "r9", "final"]
    assert (of.notes(), of.notes()) == ([NO_HISTORY], [])


def test_a_damaged_history_costs_its_readings_alone(going: Going) -> None:
    """Steps and the result come, and it is said what is missing."""
    play(going)
    going.end()
    (going.directory.history / "keys.jsonl").write_bytes(b'{"schema_version":1}\nx\n')
    of = source(going)
    assert keys(drained(of)) == ["r1", "r3", "r5", "r7", "r9", "final"]
    assert "readings of the instruments are missing" in of.notes()[0]


def test_records_that_can_t_be_read_are_an_error_that_costs_nothing(going: Going) -> None:
    """An unreadable log costs nothing. Items taken before are handed out first, and the next call tries again."""
    play(going, 1)
    of = source(going)
    path = going.directory.records / "records.jsonl"
    hidden = path.rename(going.directory.path / "hidden")
    path.mkdir()
    with pytest.raises(RunDirectoryError):
        of.read(10, 0.05)
    path.rmdir()
    hidden.rename(path)
    assert keys(of.read(10, 0.05)) == ["r1"]


def test_the_result_as_a_snapshot(going: Going) -> None:
    """The result comes as a snapshot, once, before the result itself.

    Backends that are asked and not told need this.
    """
    play(going)
    result = going.end()
    found = drained(source(going, live=True))
    live = found[-2].item
    assert isinstance(live, Live)
    assert live.snapshot == result
    assert not found[-2].position.final_done
    assert drained(source(going, found[-1].position, live=True)) == []


def test_no_time_is_waited_for_what_is_over(going: Going) -> None:
    """A source that is over does not wait, since no item comes any more."""
    going.end()
    of = source(going)
    drained(of)
    began = time.monotonic()
    assert of.read(10, 5.0) == []
    assert time.monotonic() - began < 2.0


def test_a_directory_of_nobody(tmp_path: Path) -> None:
    """Says nothing of the run it is."""
    going = Going(tmp_path / "other")
    going.directory.manifest.unlink()
    with pytest.raises(RunDirectoryError):
        source(going)
    going.die()


def test_percentiles_are_those_of_the_run(going: Going) -> None:
    """Percentiles are those of the settings, else those of the series, else the usual ones.

    A name that is no number is passed over.
    """
    stat = SeriesStat(name="a", percentiles={"42": 1.0, "x": 2.0})
    told = MetricsSnapshot(run_id="r", name="n", series=[stat])
    assert percentiles_of(going.directory, told) == list(PERCENTILES)
    assert percentiles_of(None, told) == ["42"]
    assert percentiles_of(None, None) == list(USUAL)
