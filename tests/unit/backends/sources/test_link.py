"""The way to an aggregator says what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.backends.going import RUN_ID, Face, Going, closed

from telemetry.backends.sources.live import LiveLink
from telemetry.errors import EndpointError


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    made = Going(tmp_path)
    yield made
    made.die()


@pytest.fixture
def face(short_dir: Path, going: Going) -> Iterator[Face]:
    made = Face(short_dir, going)
    yield made
    made.stop()


@pytest.fixture
def link(face: Face) -> Iterator[LiveLink]:
    made = LiveLink(face.endpoint)
    yield made
    made.close()


def until(link: LiveLink, what: Callable[[], bool]) -> list[int]:
    """Listens until something is true; the records that came."""
    found: list[int] = []
    deadline = time.monotonic() + 15.0
    while not what():
        assert time.monotonic() < deadline, f"only {found}"
        found += [record.seq for record in link.listen(len(found), 0.05)]
    return found


def test_records_come_and_the_run_ends(face: Face, link: LiveLink) -> None:
    """All that was said is there when it is over, and so is the result."""
    face.say(closed(0), closed(1))
    face.tell(state="COMPLETE")
    link.hurry()
    assert until(link, lambda: link.over) == [0, 1]
    assert link.result == face.told
    assert (link.known, link.away_s) == (2, None)


def test_snapshots_are_followed_if_they_are_wanted(going: Going, face: Face, link: LiveLink) -> None:
    """A link takes new snapshots if these are wanted, else its newest one is that of the beginning."""
    first = link.newest
    going.second()
    face.tell()
    link.listen(0, 0.01)
    assert link.newest is first
    link.follow()
    until(link, lambda: link.newest == face.told)


def test_what_was_said_is_settled(face: Face, link: LiveLink) -> None:
    """The question comes behind all that the aggregator has to write; nobody there is no error."""
    link.settle()
    face.stop()
    link.close()


@pytest.mark.slow
def test_away_and_back(short_dir: Path, going: Going, face: Face, link: LiveLink) -> None:
    """A link knows how long an aggregator was away and that it is back.

    Another run at its address is not taken for it.
    """
    face.stop()
    until(link, lambda: bool(link.away_s))
    assert not link.over
    again = Face(short_dir, going)
    until(link, lambda: link.away_s is None)
    again.stop()
    until(link, lambda: bool(link.away_s))
    other = Face(short_dir, going)
    other.told = replace(other.told, run_id="other")
    until(link, lambda: (link.away_s or 0.0) > 1.0)
    assert link.newest.run_id == RUN_ID
    other.stop()


def test_nobody_there(short_dir: Path) -> None:
    """Is an error at once."""
    began = time.monotonic()
    with pytest.raises(EndpointError, match="no aggregator listens at"):
        LiveLink(f"ipc://{short_dir}/nobody")
    assert time.monotonic() - began < 2.0
