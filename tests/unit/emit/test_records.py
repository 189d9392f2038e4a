"""Marks, params and expectations as the wire takes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from telemetry import limits
from telemetry.emit import records
from telemetry.errors import InstrumentError
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Expect, Mark, Params, Uncounted


def decoded_params(values: dict[Any, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for raw in records.params(values, 5):
        record = decode_record(raw)
        assert isinstance(record, Params)
        assert record.time_ns == 5
        merged.update(record.values)
    return merged


def test_a_mark_keeps_its_labels() -> None:
    """Values become text."""
    assert decode_record(records.mark("warm", {"step": 3}, 7)) == Mark(text="warm", time_ns=7, labels={"step": "3"})


def test_a_mark_is_cut_to_the_bounds_of_the_wire() -> None:
    """A long text is no reason to lose the moment."""
    record = decode_record(records.mark("x" * 10_000, {"k" * 100: "v" * 1_000}, 0))
    assert isinstance(record, Mark)
    assert len(record.text) == limits.TEXT_CHARS
    assert record.text.endswith("…")
    assert {len(key): len(value) for key, value in record.labels.items()} == {
        limits.LABEL_KEY_CHARS: limits.LABEL_VALUE_CHARS
    }


def test_text_that_utf8_cannot_carry_is_replaced() -> None:
    """Half a surrogate pair comes from broken file names."""
    assert decode_record(records.mark("a\ud800b", {}, 0)) == Mark(text="a?b")


def test_params_are_flattened_with_dots() -> None:
    """Scalars keep their types, the rest becomes text."""
    values = {"lr": 1e-3, "model": {"layers": 2, "tied": True, "init": None}, "sizes": [1, 2], "empty": {}, 7: "x"}
    assert decoded_params(values) == {
        "lr": 1e-3,
        "model.layers": 2,
        "model.tied": True,
        "model.init": None,
        "sizes": "[1, 2]",
        "empty": "{}",
        "7": "x",
    }


def test_a_map_that_contains_itself_ends() -> None:
    """Depth is bounded."""
    endless: dict[str, Any] = {}
    endless["again"] = endless
    assert len(decoded_params(endless)) == 1


def test_many_params_are_several_records() -> None:
    """None exceeds the wire's count or the batch's bytes."""
    assert len(decoded_params({f"k{number}": number for number in range(2_500)})) == 2_500
    fat = {f"k{number}": "é" * limits.TEXT_CHARS for number in range(600)}
    encoded = list(records.params(fat, 5))
    assert all(len(raw) <= records.RECORD_BYTES for raw in encoded)
    assert decoded_params(fat) == fat


def test_expect_is_checked() -> None:
    """It is a definition: an error shows at the call."""
    assert decode_record(records.expect("n", 5, 3)) == Expect(name="n", total=5.0, time_ns=3)
    for name, total in (("", 1), ("n", -1), ("n", float("nan")), ("n", float("inf")), ("n", "5")):
        with pytest.raises(InstrumentError):
            records.expect(name, total, 0)  # type: ignore[arg-type]


def test_records_are_frozen_when_they_are_made() -> None:
    """Later changes of the caller's map don't show."""
    values = {"a": 1}
    [raw] = list(records.params(values, 0))
    values["a"] = 2
    assert msgspec.msgpack.decode(raw)[1] == {"a": 1}


@pytest.mark.parametrize("what", ["characters", "bytes", "surrogates"])
def test_a_text_that_fits_in_no_record_is_refused(what: str) -> None:
    """The longest that fits is sent."""
    longest = "x" * limits.UNCOUNTED_CHARS
    assert len(records.uncounted(Uncounted(text=longest, tokens="t"))) > limits.UNCOUNTED_CHARS
    text = {"characters": longest + "x", "bytes": "\U0001f600" * limits.UNCOUNTED_CHARS, "surrogates": "\ud800"}[
        what
    ]
    with pytest.raises(ValueError, match="surrogates" if what == "surrogates" else "too long"):
        records.uncounted(Uncounted(text=text, tokens="t"))
