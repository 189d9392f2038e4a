"""All kinds of a process: one object for each, and the tracking windows."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.errors import InstrumentError, UsageError
from telemetry.wire.events import Mark


def test_the_same_name_and_labels_are_the_same_object(program: Any) -> None:
    """The same name and labels give the same object, in any order of labels.

    The other options need not be repeated.
    """
    made = program.kinds.requests("llm", {"a": 1, "b": "x"}, expire_s=30, stop_when="p99 known")
    assert program.kinds.requests("llm", {"b": "x", "a": 1}) is made
    assert program.kinds.requests("llm", {}) is not made
    assert (made.expire_s, made.stop_when, dict(made.labels)) == (30.0, "p99 known", {"a": "1", "b": "x"})
    program.kinds.requests("llm", {}, expire_s=5)
    assert program.requests().expire_s == 5.0


@pytest.mark.parametrize(
    ("name", "labels", "options"),
    [
        ("", {}, {}),
        ("x" * 190, {}, {}),
        ("llm", {"window": "w"}, {}),
        ("llm", {"reason": "r"}, {}),
        ("llm", {f"l{number}": 1 for number in range(15)}, {}),
        ("llm", {"a": object()}, {}),
        ("llm", {}, {"expire_s": 0}),
        ("llm", {}, {"expire_s": float("nan")}),
        ("llm", {}, {"expire_s": "5"}),
        ("settled", {}, {"expire_s": 6.0}),
        ("settled", {}, {"stop_when": "p50 known"}),
        ("taken", {}, {}),
    ],
)
def test_what_cannot_be_raises_at_once(program: Any, name: str, labels: Any, options: Any) -> None:
    """An impossible kind raises at once. Otherwise the mistake would show later, in the middle of a load."""
    program.kinds.requests("settled", {}, expire_s=5.0, stop_when="p99 known")
    program.catalog.instrument("series", "taken.latency", "ms")
    with pytest.raises(InstrumentError):
        program.kinds.requests(name, labels, **options)


def test_a_window_that_is_not_entered_says_so(program: Any, said: Any) -> None:
    """A window that was never entered is named once, when it is dropped or when the run ends."""
    with program.tracking("entered"):
        program.tracking("dropped")
    assert [line.split("'")[1] for line in said()] == ["dropped"]
    kept = [program.tracking("kept"), program.tracking("later")]
    with kept[1]:
        program.kinds.close()
    assert [line.split("'")[1] for line in said()] == ["dropped", "kept"]
    inherited = program.tracking("inherited")
    program.kinds.after_fork_in_child()
    program.kinds.close()
    kept.clear()
    assert len(said()) == 2
    with inherited:
        pass
    assert all("with run.tracking(" in line for line in said())


def test_a_condition_that_cannot_be_read_raises(program: Any) -> None:
    """A condition that can't be read raises an error, which shows one that can be read."""
    with pytest.raises(UsageError, match="is not a condition to stop"):
        program.kinds.requests("llm", {}, stop_when="soon")


def test_names_of_a_kind_are_taken(program: Any) -> None:
    """The names of a kind can't get another meaning. The same meaning is accepted."""
    program.requests()
    with pytest.raises(InstrumentError, match="already has the unit 'ns'"):
        program.catalog.instrument("series", "llm.latency", "ms")
    assert program.catalog.instrument("series", "llm.ttft", "ns").unit == "ns"


def test_requests_belong_to_the_window_they_were_issued_in(program: Any) -> None:
    """Whenever they end, and also for kinds that are made within it; marks say when it began and ended."""
    llm = program.requests()
    before = llm.issue()
    with program.tracking("w"):
        within = llm.issue()
        before.complete()
        program.requests("other").issue().fail()
    after = llm.issue()
    within.complete()
    after.complete()
    told = [(name, labels.get("window", "")) for name, labels, *_ in program.events if "latency" not in name]
    assert told == [
        ("llm.issued", ""),
        ("llm.issued", "w"),
        ("llm.completed", ""),
        ("other.issued", "w"),
        ("other.failed", "w"),
        ("llm.issued", ""),
        ("llm.completed", "w"),
        ("llm.completed", ""),
    ]
    marks = [record.text for record in program.records if isinstance(record, Mark)]
    assert marks == ["tracking w began", "tracking w ended"]


def test_windows_nest_by_replacing(program: Any) -> None:
    """The newest open window counts, also if windows end out of order or by an exception."""
    one, two = program.tracking("one"), program.tracking("two")
    seen = []
    for step in (one.__enter__, two.__enter__, lambda: one.__exit__(KeyError, KeyError(), None)):
        step()
        seen.append(program.kinds.window)
    two.__exit__(None, None, None)
    assert [*seen, program.kinds.window] == ["one", "two", "two", ""]


@pytest.mark.parametrize("window", ["", "x" * 300, 7])
def test_a_window_has_a_name(program: Any, window: Any) -> None:
    """A window needs a valid name, since the name is a label."""
    with pytest.raises(InstrumentError):
        program.tracking(window)


def test_what_was_open_is_forgotten(program: Any) -> None:
    """Requests of a parent or of another run are harmless: their ends are calls for nobody."""
    llm = program.requests()
    made = llm.issue(key="k", conversation="c")
    program.take()
    program.kinds.after_fork_in_child()
    assert llm.in_flight == 0
    made.first()
    made.complete()
    llm.find("k").complete()
    program.kinds.close()
    assert [name for name, *_ in program.events] == ["llm.after_end"] * 2
    with program.tracking("w"):
        assert program.kinds.window == "w"


def test_tending_looks_after_all_kinds(program: Any) -> None:
    """Tending expires old requests of every kind that has an age limit."""
    for name in ("a", "b"):
        program.kinds.requests(name, {}, expire_s=1e-9).issue(at_ns=1)
    program.kinds.tend()
    assert [name for name, *_ in program.events][2:] == ["a.expired", "b.expired"]


def test_one_look_is_bounded_however_many_kinds_there_are(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one begins where it stopped, so that a kind with much to do holds up no other for long."""
    monkeypatch.setattr(limits, "EXPIRED_A_TURN", 2)
    kinds = [program.kinds.requests(name, {}, expire_s=1e-9) for name in "abc"]
    for kind in (kinds[0], kinds[0], *kinds, *kinds, *kinds):
        kind.issue(at_ns=1)
    in_flight = []
    for _ in range(4):
        program.kinds.tend()
        in_flight.append([kind.in_flight for kind in kinds])
    assert in_flight == [[3, 3, 3], [3, 1, 3], [3, 1, 1], [1, 1, 1]]


def test_kinds_without_end_are_dropped_and_counted(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program goes on, those that were there before lose nothing, and one line says so."""
    said: list[str] = []
    monkeypatch.setattr(user_warnings, "warn", said.append)
    monkeypatch.setattr(limits, "REQUEST_KINDS", 2)
    first = [program.requests(user=number) for number in range(2)]
    for number in range(5):
        late = program.kinds.requests("llm", {"user": number + 2}, expire_s=number + 1, stop_when="p50 known")
        with late.issue(key="k", conversation="c", planned=1) as made:
            made.first()
        late.find("k").complete()
        late.end_conversation("c")
        assert (late.in_flight, late.enough, late.known("99").count) == (0, False, 0)
    assert (program.unencodable.total, program.events, program.definitions, len(said)) == (5, [], [], 1)
    assert len(program.kinds._kinds) == 2
    assert program.requests(user=1) is first[1]
    with program.tracking("w"):
        first[0].issue().complete()
        program.requests(user=9).issue()
    assert program.values("llm.issued") == program.values("llm.completed") == [1.0]
    with pytest.raises(InstrumentError):
        program.kinds.requests("llm", {"user": 9}, expire_s=-1)
