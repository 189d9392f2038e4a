"""Values of steps: what the wire gets of what a program logs."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from telemetry import limits
from telemetry.client.process import Process
from telemetry.client.redaction import REDACTION
from telemetry.client.sending.outbox import Outbox
from telemetry.client.steps import DEFAULT_AXIS, Steps, number, plain_step
from telemetry.wire.codec import decode_record
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import EventRecord, Scalars, StepEnd

Said = Callable[[], list[str]]


class Bench:
    """A process that is live, without a thread that sends."""

    def __init__(self) -> None:
        self.process = Process()
        tallies = {
            Reason.NOT_A_NUMBER: self.process.recorders.refused,
            Reason.UNENCODABLE: self.process.unencodable,
        }
        self.outbox = Outbox("p", self.process.recorders.buffer, [], tallies=tallies, row_bound=None)
        self.process._flusher = SimpleNamespace(outbox=self.outbox)  # type: ignore[assignment]
        self.process.state = "live"
        self.steps = Steps(self.process)

    def log(self, values: Any, step: Any = 1, axis: Any = "train", at_ns: Any = None) -> list[EventRecord]:
        self.steps.log(values, step, axis, at_ns)
        return self.take()

    def take(self) -> list[EventRecord]:
        found = [decode_record(raw) for raw in self.outbox.records]
        self.outbox.records.clear()
        return found

    def values(self, values: Any) -> dict[str, float | None]:
        """Return the values that the wire gets of a call.

        Make the call twice, since the second one takes the short way.
        """
        one, again = self.log(values), self.log(values)
        merged: list[dict[str, float | None]] = [{}, {}]
        for into, records in zip(merged, (one, again), strict=True):
            for record in records:
                assert isinstance(record, Scalars)
                assert (record.axis, record.step) == ("train", 1)
                assert record.time_ns > 0
                into.update(record.values)
        assert merged[0] == merged[1]
        return merged[0]

    @property
    def dropped(self) -> dict[str, int]:
        self.outbox.settle()
        return self.outbox.dropped


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    return Bench()


class Tensor:
    """A tensor with a shape and an item, and a float if it has one element."""

    def __init__(self, value: float, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._value = value

    def item(self) -> float:
        if math.prod(self.shape) != 1:
            raise RuntimeError("a tensor of many elements")
        return self._value

    def __float__(self) -> float:
        return self.item()


class Hostile:
    """Raises whatever is asked of it."""

    def __float__(self) -> float:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")


def test_values_of_all_kinds_of_numbers_are_floats(bench: Bench) -> None:
    """Python's, numpy's, tensors, and whatever says that it is one."""
    values = {
        "float": 0.5,
        "int": 3,
        "bool": True,
        "float64": np.float64(0.25),
        "float32": np.float32(0.125),
        "float16": np.float16(0.5),
        "long double": np.longdouble(0.75),
        "int64": np.int64(-7),
        "bool_": np.bool_(True),
        "array of no dimension": np.array(1.5),
        "array of one element": np.array([[2.5]]),
        "scalar tensor": Tensor(3.5, ()),
        "tensor of one element": Tensor(4.5, (1,)),
        "decimal": Decimal("0.75"),
        "fraction": Fraction(1, 4),
    }
    found = bench.values(values)
    assert found == {name: float(np.asarray(value).item()) if name.startswith("array") else float(value)  # type: ignore[arg-type]
                     for name, value in values.items()}  # fmt: skip
    assert {type(value) for value in found.values()} == {float}
    assert bench.dropped == {}


def test_a_value_that_is_not_finite_is_null(bench: Bench) -> None:
    """A value that is not finite is null, also an integer that no float holds.

    Its neighbours keep their values, and no loss is counted.
    """
    values = {"a": 1.0, "nan": math.nan, "inf": -math.inf, "np": np.float32("nan"), "huge": 10**400}
    values["long"] = np.longdouble("1e4000")
    assert bench.values(values) == {"a": 1.0, "nan": None, "inf": None, "np": None, "huge": None, "long": None}
    assert bench.values({"a": 1e308, "b": 1e308}) == {"a": 1e308, "b": 1e308}, "only their sum is not"
    assert bench.dropped == {}


def test_what_is_no_number_is_left_out_by_itself(bench: Bench, said: Said) -> None:
    """Counted each time, and said once for each name."""
    bad = {
        "text": "1.5",
        "complex64": np.complex64(1j),
        "duration": np.timedelta64(5, "s"),
        "none": None,
        "array": np.zeros(3),
        "tensor": Tensor(0, (2,)),
        "complex": 1j,
        "h": Hostile(),
    }
    assert bench.values({"loss": 0.5, **bad}) == {"loss": 0.5}
    assert bench.dropped == {"not_a_number": 2 * len(bad)}
    lines = said()
    assert len(lines) == len(bad)
    assert lines[0] == (
        "telemetry: 'text' is ignored: str is not a number. Such values are counted; this warning appears once"
    )


def test_a_name_that_cannot_be_is_left_out_by_itself(bench: Bench, said: Said) -> None:
    """A shortened one could be another's."""
    bad = {"": 1.0, "x" * 201: 1.0, "\ud800": 1.0, 7: 1.0, None: 1.0}
    assert bench.values({**bad, "x" * 200: 2.0, "ü/µ": 3.0}) == {"x" * 200: 2.0, "ü/µ": 3.0}
    assert bench.dropped == {"unencodable": 2 * len(bad)}
    assert len(said()) == 1


def test_names_of_a_class_of_their_own_are_names(bench: Bench) -> None:
    """Names may be of a string class of numpy or of an enumeration of strings."""
    assert bench.values({np.str_("a"): 1.0, "b": 2.0}) == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ({"values": [1.0]}, "list"),
        ({"values": 0.5}, "float"),
        ({"step": 1.0}, "step must be an integer, not float"),
        ({"step": "1"}, "step must be an integer, not str"),
        ({"step": None}, "step must be an integer, not NoneType"),
        ({"step": 1 << 63}, "64 bits"),
        ({"step": -(1 << 63) - 1}, "64 bits"),
        ({"axis": ""}, "empty"),
        ({"axis": None}, "string"),
        ({"axis": ["train"]}, "string"),
        ({"at_ns": -1}, "not a valid time"),
        ({"at_ns": 0.5}, "interpreted as an integer"),
    ],
    ids=str,
)
def test_a_call_that_cannot_be_is_refused(bench: Bench, said: Said, call: dict[str, Any], why: str) -> None:
    """An impossible call never raises. It is counted each time, and reported once."""
    assert bench.log({"a": 1.0}) != []
    whole = {"values": {"a": 1.0}, **call}
    assert [bench.log(**whole), bench.log(**whole)] == [[], []]
    assert bench.dropped == {"unencodable": 2}
    [line] = said()
    assert line.startswith("telemetry: log is ignored: ")
    assert why in line


@pytest.mark.parametrize("step", [0, -5, (1 << 63) - 1, -(1 << 63), True, np.int64(9), np.uint8(3), np.array(4)])
def test_a_step_is_any_integer_of_64_bits(bench: Bench, step: Any) -> None:
    """A step is any integer of 64 bits, also one of numpy."""
    for _ in range(2):
        [record] = bench.log({"a": 1.0}, step=step)
        assert isinstance(record, Scalars)
        assert (record.step, type(record.step)) == (int(step), int)


def test_a_time_may_be_given(bench: Bench) -> None:
    """A given time is a time of the monotonic clock, as everywhere."""
    assert bench.log({"a": 1.0}, at_ns=7) == [Scalars("train", 1, {"a": 1.0}, 7)]


def test_nothing_is_said_of_no_values(bench: Bench) -> None:
    """A step that somebody has nothing to say of is ended, not logged."""
    assert bench.log({}) == bench.log({}) == bench.log({"bad": "x"}) == []


def test_many_names_are_several_records(bench: Bench) -> None:
    """Many names become several records, each within the limit of the wire."""
    values = {f"name {n}": float(n) for n in range(limits.PARAMS_PER_RECORD + 1)}
    assert bench.values(values) == values
    assert len(bench.log(values)) == 2


def test_names_without_end_cost_no_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names beyond the bound are checked at each call, and recorded like the others."""
    monkeypatch.setattr(REDACTION, "step_names", set())
    for first in range(0, limits.STEP_NAMES_KNOWN + 2_000, 1_000):
        bench.log({f"name {n}": 0.5 for n in range(first, first + 1_000)})
    assert len(REDACTION.step_names) == limits.STEP_NAMES_KNOWN
    assert bench.values({"one more": 1.0, "": 0.5}) == {"one more": 1.0}


def test_later_changes_do_not_show(bench: Bench) -> None:
    """A program may reuse its dictionary, and its arrays."""
    values: dict[str, Any] = {"a": 1.0, "b": np.array([2.0])}
    for _ in range(2):
        bench.steps.log(values, 1, "train", None)
        values["b"][0] = 9.0
        values["a"] = 3.0
        values["b"] = np.array([2.0])
    assert [record.values for record in bench.take() if isinstance(record, Scalars)] == [
        {"a": 1.0, "b": 2.0},
        {"a": 3.0, "b": 2.0},
    ]


def test_a_step_is_ended(bench: Bench) -> None:
    """The end of a step keeps the order of the calls.

    A step that can't be ended is refused like one that can't be logged.
    """
    bench.steps.log({"a": 1.0}, 4, DEFAULT_AXIS, None)
    bench.steps.end(np.int64(4), DEFAULT_AXIS, 8)
    bench.steps.end(0.5, DEFAULT_AXIS, None)  # type: ignore[arg-type]
    assert bench.take()[1:] == [StepEnd("step", 4, 8)]
    assert bench.dropped == {"unencodable": 1}


def test_words_about_bad_values_end(bench: Bench, said: Said) -> None:
    """A program of bad values fills no terminal, and no memory."""
    for n in range(1_000):
        bench.log({f"bad {n}": "x"})
    assert len(said()) == len(bench.steps._said) == 20
    assert bench.dropped == {"not_a_number": 1_000}


def test_without_a_run_nothing_is_kept_or_counted(bench: Bench) -> None:
    """The same calls are there, and cost little."""
    bench.process.state, bench.process._flusher = "idle", None
    assert bench.log({"a": 1.0}) == bench.log({"a": "bad"}) == []
    assert bench.dropped == {}


def test_after_the_end_calls_are_counted_as_late(bench: Bench) -> None:
    """Each is one event."""
    bench.log({"a": 1.0})
    bench.process.state = "finished"
    assert bench.log({"a": 1.0}) == []
    assert bench.process._late.take() == 1


def test_number_and_step_raise_for_what_is_none() -> None:
    """`number` and `plain_step` raise for invalid values, which their callers count."""
    assert (number(2), number(math.inf)) == (2.0, None)
    with pytest.raises(TypeError):
        number("2")
    with pytest.raises(ValueError, match="64 bits"):
        plain_step(1 << 63)


def test_an_axis_of_a_class_of_its_own_is_an_axis(bench: Bench) -> None:
    """An axis of a string class of its own is accepted on both ways to the wire."""
    for _ in range(2):
        [record] = bench.log({"a": 1.0}, axis=np.str_("eval"))
        assert isinstance(record, Scalars)
        assert record.axis == "eval"
