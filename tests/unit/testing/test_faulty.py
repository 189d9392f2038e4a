"""Faults come as they are planned, in order, and outlive the process they end."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry import limits
from telemetry.backends.backend import RunFacts, Unavailable
from telemetry.backends.choice import parse
from telemetry.backends.items import KINDS, Live, Mark
from telemetry.testing import faulty
from telemetry.testing.faulty import Fault, Faults, Faulty, FaultyOptions, around, plug_in

MARKS = [Mark(key=f"r{number}", time_ns=number, text="here") for number in range(3)]


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """Around `jsonl`; what it changes in this process is put back."""
    for name in ("BACKEND_BATCH_ITEMS", "BACKEND_RETRY_S", "BACKEND_RETRY_MOST_S", "BACKEND_CALL_S"):
        monkeypatch.setattr(limits, name, getattr(limits, name))
    monkeypatch.setattr(faulty, "_SLOW_S", 0.0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    made = Faulty(FaultyOptions(inner="jsonl", folder=str(tmp_path)), tmp_path)
    yield made
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    made.close(final=True)


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path)


def test_faults_wait_for_their_call_and_for_those_before_them(faults: Faults) -> None:
    """Each befalls as many calls as it says, after as many as it says, and is kept in the file."""
    first, second = Fault(what="slow", skip=1, times=2), Fault(what="away", call="flush", times=0)
    faults.plan(first, second)
    calls = ["flush", "write", "write", "open", "write", "write", "flush", "flush"]
    found = [one.what if (one := faults.due(call)) else "" for call in calls]
    assert found == ["", "", "slow", "", "slow", "", "away", "away"]
    assert faults.left() == [second]
    faults.mend()
    assert (faults.due("flush"), faults.left()) == (None, [])


def test_without_faults_it_is_the_inner_one(backend: Faulty, tmp_path: Path) -> None:
    """A backend without faults takes, reports and keeps what the inner one does."""
    assert backend.takes == tuple(kind for kind in KINDS if kind is not Live)
    backend.open(RunFacts("r", "n", 0, None), {})
    backend.write(MARKS)
    backend.flush()
    assert backend.where() == str(tmp_path / "items.jsonl")
    assert backend.state() == {"size": len((tmp_path / "items.jsonl").read_bytes())}
    assert backend.left_out == {}


def test_what_is_planned_is_raised_before_the_inner_call(backend: Faulty, faults: Faults, tmp_path: Path) -> None:
    """A planned fault is raised before the inner call, so that the inner backend keeps no part of it."""
    faults.plan(Fault(what="away", call="open"), Fault(what="away"), Fault(what="breaks"), Fault(what="slow"))
    with pytest.raises(Unavailable):
        backend.open(RunFacts("r", "n", 0, None), {})
    backend.open(RunFacts("r", "n", 0, None), {})
    with pytest.raises(Unavailable):
        backend.write(MARKS)
    with pytest.raises(RuntimeError):
        backend.write(MARKS)
    assert not (tmp_path / "items.jsonl").read_bytes()
    backend.write(MARKS)
    assert len((tmp_path / "items.jsonl").read_bytes().splitlines()) == len(MARKS)


def test_a_death_comes_in_the_middle(
    backend: Faulty, faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a batch is there, and the fault is over for the next process."""
    killed: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, number: killed.append(number))
    backend.open(RunFacts("r", "n", 0, None), {})
    faults.plan(Fault(what="dies"))
    with pytest.raises(AssertionError):
        backend.write(MARKS)
    assert killed == [signal.SIGKILL]
    assert len((tmp_path / "items.jsonl").read_bytes().splitlines()) == 2
    assert faults.left() == []


def test_a_full_disk_has_room_again(backend: Faulty, faults: Faults) -> None:
    """A full disk has room again once the faults are mended."""
    backend.open(RunFacts("r", "n", 0, None), {})
    faults.plan(Fault(what="full", times=0))
    large = [Mark(key="r9", time_ns=0, text="x" * 64 * limits.KIB)]
    with pytest.raises(OSError, match="too large"):
        backend.write(large)
    faults.mend()
    backend.write(large)
    backend.flush()


def test_patience_ends_where_a_hang_is_planned(backend: Faulty, faults: Faults) -> None:
    """The time allowed for a call shrinks at the planned hang and not before."""
    faults.plan(Fault(what="hangs", skip=1))
    backend.open(RunFacts("r", "n", 0, None), {})
    assert limits.BACKEND_CALL_S > 10.0
    backend.write(MARKS)
    backend.flush()
    assert limits.BACKEND_CALL_S < 10.0


def test_it_is_called_as_the_inner_one_is(tmp_path: Path) -> None:
    """The faulty backend has the name of the inner one, so that settings by name reach it.

    The options of the inner one stay.
    """
    found = parse_as_known(around(r"jsonl:path=a\,b,as=mine", tmp_path))
    assert found[0] == "mine"
    assert parse(found[1]).options == {"path": "a,b"}
    facts = plug_in(tmp_path) / "telemetry_faulty-1.dist-info" / "entry_points.txt"
    assert facts.read_text() == "[telemetry.backends]\nfaulty = telemetry.testing.faulty:Faulty\n"


def parse_as_known(text: str) -> tuple[str, str]:
    """Name and inner text, as a process that has the plug-in reads them."""
    choice = parse(text.replace(f"{faulty.KIND}:", "otlp:", 1))
    return choice.name, choice.options["inner"]
