"""Tests of the marks, params, expectations and warnings that a run notes, and of their bounds."""

from __future__ import annotations

from telemetry import limits
from telemetry.aggregator.notes import Notes
from telemetry.wire.events import Expect, Mark, Params


def test_the_newest_marks_are_kept() -> None:
    """Older ones are in the record stream only."""
    notes = Notes()
    for number in range(limits.MARKS_KEPT + 5):
        notes.mark("p", number, Mark(f"m{number}", 0, {"k": "v"}))
    assert len(notes.marks) == limits.MARKS_KEPT
    assert (notes.marks[0].text, notes.marks[-1].time_ns) == ("m5", limits.MARKS_KEPT + 4)


def test_params_merge_and_are_bounded_in_number_and_length() -> None:
    """Later values win, also when full; what doesn't fit gives one warning."""
    notes = Notes()
    notes.add_params(Params({f"p{n}": n for n in range(limits.PARAMS_KEPT)}))
    notes.add_params(Params({"p0": "new", "one too many": 1}))
    assert notes.params["p0"] == "new"
    assert len(notes.params) == limits.PARAMS_KEPT
    long_ones = Notes()
    for number in range(100):
        long_ones.add_params(Params({f"p{number}": "x" * limits.TEXT_CHARS}))
    assert sum(len(str(value)) for value in long_ones.params.values()) <= limits.PARAM_CHARS_KEPT
    assert len(notes.warnings) == len(long_ones.warnings) == 1


def test_replacing_a_param_by_itself_never_fills_the_room() -> None:
    """The room counts what is kept, not what was sent."""
    notes = Notes()
    for number in range(1_000):
        notes.add_params(Params({"p": str(number) + "x" * 4_000}))
    assert notes.params["p"] == "999" + "x" * 4_000


def test_expectations_are_replaced_and_bounded() -> None:
    """The newest total stands; names beyond the bound are told of."""
    notes = Notes()
    for number in range(limits.PARAMS_KEPT + 1):
        notes.expect(Expect(f"n{number}", 5.0))
    notes.expect(Expect("n0", 7.0))
    assert notes.expected["n0"] == 7.0
    assert len(notes.expected) == limits.PARAMS_KEPT
    assert len(notes.warnings) == 1


def test_warnings_come_once_and_end_in_a_number() -> None:
    """A flood of different warnings is cut and counted."""
    notes = Notes()
    for number in range(limits.WARNINGS_KEPT + 1):
        notes.warn(f"w{number}")
        notes.warn("w0")
    assert notes.warnings[-1] == "and 1 more warning"
    for number in range(2):
        notes.warn(f"v{number}")
    assert len(notes.warnings) == limits.WARNINGS_KEPT + 1
    assert notes.warnings[-1] == "and 3 more warnings"
