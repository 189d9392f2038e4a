"""Values of steps, checked and encoded at the call.

A training loop usually logs the same shape in every step: a dictionary of numbers under known names. A few C calls
detect this case. Other input takes the slow path, which checks each name and value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from math import isfinite, ldexp
from operator import index
from typing import Any, Final, SupportsIndex

import msgspec

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.client.catalog import check_text
from telemetry.client.process import Process
from telemetry.client.recorders import checked_ns
from telemetry.client.redaction import REDACTION
from telemetry.wire import events
from telemetry.wire.events import Scalars, StepClear, StepEnd

DEFAULT_AXIS: Final = events.DEFAULT_AXIS
_LOWEST: Final = -(1 << 63)
_HIGHEST: Final = (1 << 63) - 1
_LINES_SAID: Final = 20  # maximum number of messages per process about unusable values
_FLOATS: Final = frozenset({float})
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_now: Final = time.monotonic_ns


class Steps:
    """Step records of a process. Thread-safe. Its methods don't block."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._said: set[str] = set()

    def log(
        self, values: Mapping[str, object], step: SupportsIndex, axis: str, at_ns: SupportsIndex | None
    ) -> None:
        """Record values of one step. A value that is not a number is left out and counted; the others are kept."""
        process = self._process
        if process.state == "idle":
            process.attach_by_itself()
        flusher = process.flusher
        if process.step_waits:
            self._begin_step(step, axis)
        if flusher is not None and process.state == "live" and at_ns is None:
            record = self._compiled(values, step, axis)
            if record is not None:
                flusher.outbox.records.append(record)
                return
        self.put("log", lambda: self._records(values, step, axis, at_ns))

    def log_number(self, name: str, value: Any, step: int, axis: str) -> bool:
        """Record one number of one step at half the cost of `log`. Return False, without an effect, where `log` has
        to do it: for a new name, a value that is not a number, or a process without a run.
        """
        flusher, names = self._process.flusher, REDACTION.step_names
        if self._process.step_waits:
            self._begin_step(step, axis)
        try:
            if flusher is None or self._process.state != "live" or name not in names or axis not in names:
                return False
            plain = value if type(value) is float and isfinite(value) else number(value)
            flusher.outbox.records.append(_ENCODE(Scalars(axis, plain_step(step), {name: plain}, _now())))
        except Exception:  # noqa: BLE001 – a value may raise anything; `log` counts it
            return False
        return True

    def end(self, step: SupportsIndex, axis: str, at_ns: SupportsIndex | None) -> None:
        """Record that this process has logged all its values for a step of an axis and for earlier steps."""

        def encode() -> list[bytes]:
            ended = StepEnd(self.axis(axis), plain_step(step), moment(at_ns))
            waits = [each.end(ended.step) for each in self._process.step_waits if each.axis == axis]
            return [*(record for record in waits if record is not None), _ENCODE(ended)]

        self.put("end_step", encode)

    def clear(self, step: SupportsIndex | None, axis: str) -> None:
        """Record that the values of a step, or of all steps if `step` is None, are to be forgotten."""

        def encode() -> list[bytes]:
            plain = None if step is None else plain_step(step)
            return [_ENCODE(StepClear(self.axis(axis), plain, _now()))]

        self.put("clear_step", encode)

    def _begin_step(self, step: SupportsIndex, axis: str) -> None:
        """Record work and wait of the step before, if this one is a later one."""
        for each in self._process.step_waits:
            if each.axis == axis:
                with suppress(TypeError, ValueError):  # `log` counts a step that is none
                    record = each.log(plain_step(step))
                    if record is not None:
                        self._process.put_records(lambda encoded=record: (encoded,))  # type: ignore[misc]

    def put(self, what: str, make: Callable[[], Iterator[bytes] | list[bytes]]) -> None:
        """Queue encoded records. If encoding fails, the records are counted and one message is printed."""

        def encode() -> list[bytes]:
            try:
                return list(make())
            except Exception as error:
                self.say(what, str(error))
                raise

        self._process.put_records(encode)

    def refuse(self, what: str, why: str, count: int = 1) -> None:
        """Count values that are not numbers, and print one message about them."""
        self._process.recorders.refused.hit_many(count)
        self.say(what, why)

    def leave_out(self, what: str, why: str) -> None:
        """Count a part of a record that is invalid on the wire, and print one message about it."""
        self._process.unencodable.hit()
        self.say(what, why)

    def say(self, what: str, why: str) -> None:
        if what not in self._said and len(self._said) < _LINES_SAID:
            self._said.add(what)
            user_warnings.warn(f"{what} is ignored: {why}. Such values are counted; this warning appears once")

    def axis(self, axis: object) -> str:
        """Return the name of an axis. Raise InstrumentError if it is invalid."""
        return self._checked("an axis", axis)

    def _compiled(self, values: Mapping[str, object], step: SupportsIndex, axis: str) -> bytes | None:
        """Return one record if all values are numbers under known names, else None."""
        try:
            if type(values) is not dict or not 0 < len(values) <= limits.PARAMS_PER_RECORD:
                return None
            names = REDACTION.step_names
            if axis not in names or not names.issuperset(values):
                return None
            plain = values
            if not _FLOATS.issuperset(map(type, values.values())) or not isfinite(sum(values.values())):
                plain = {name: number(value) for name, value in values.items()}
            return _ENCODE(Scalars(axis, plain_step(step), plain, _now()))
        except Exception:  # noqa: BLE001 – a value may raise anything; the slow path counts it
            return None

    def _records(
        self, values: Mapping[str, object], step: SupportsIndex, axis: str, at_ns: SupportsIndex | None
    ) -> Iterator[bytes]:
        if not isinstance(values, Mapping):
            raise TypeError(f"values must be a map of names, not {type(values).__name__}")
        where, number, time_ns = self.axis(axis), plain_step(step), moment(at_ns)
        plain = iter(self._plain(values).items())
        while part := dict(islice(plain, limits.PARAMS_PER_RECORD)):
            yield _ENCODE(Scalars(where, number, part, time_ns))

    def _plain(self, values: Mapping[str, object]) -> dict[str, float | None]:
        """Return the values that can be sent; leave out and count the others."""
        plain: dict[str, float | None] = {}
        for name, value in list(values.items()):
            try:
                checked = self._checked("a name", name)
            except Exception as error:  # noqa: BLE001 – a key may be anything; the others are kept
                self.leave_out("a value", str(error))
                continue
            try:
                plain[checked] = number(value)
            except Exception:  # noqa: BLE001 – a value may raise anything; the others are kept
                self.refuse(repr(checked), f"{type(value).__name__} is not a number")
        return plain

    def _checked(self, what: str, name: object) -> str:
        names = REDACTION.step_names
        if type(name) is str and name in names:
            return name
        check_text(what, name, limits.NAME_CHARS)
        text = str.__str__(name)
        masked = REDACTION.redactor.name(text)[: limits.NAME_CHARS]
        if masked == text and len(names) < limits.STEP_NAMES_KNOWN:
            names.add(text)
        return masked


def number(value: Any) -> float | None:
    """Convert any number to a float, including arrays and tensors of one element. Return None if it is not finite.

    Raises if the value is not a number. Waits for a tensor that a device still computes.
    """
    if type(value) is float:
        return value if isfinite(value) else None
    try:
        # torch warns when a tensor with a gradient becomes a float by itself
        item = None if _is_numpy_float(value.__class__) else getattr(value, "item", None)
        result = ldexp(value if item is None else item(), 0)
    except OverflowError:
        return None
    return result if isfinite(result) else None


@lru_cache(maxsize=64)
def _is_numpy_float(kind: type) -> bool:
    """Return whether a type is a scalar of numpy. Its `item` takes six times as long as a conversion."""
    return any((base.__module__, base.__name__) == ("numpy", "floating") for base in kind.__mro__)


def plain_step(step: SupportsIndex) -> int:
    """Return a step as an integer of 64 bits. Raise TypeError or ValueError."""
    if type(step) is int:
        plain = step
    else:
        try:
            plain = int(index(step))
        except TypeError:
            raise TypeError(f"step must be an integer, not {type(step).__name__}") from None
    if not _LOWEST <= plain <= _HIGHEST:
        raise ValueError(f"step {plain} does not fit in 64 bits")
    return plain


def moment(at_ns: SupportsIndex | None) -> int:
    """Return `at_ns`, or the time now if it is None. Raise TypeError or ValueError for an invalid time."""
    return _now() if at_ns is None else checked_ns(at_ns)
