"""Events: what a record may and may not hold."""

from __future__ import annotations

import math
import typing

import msgspec
import pytest

from telemetry import limits
from telemetry.wire import codec, events

LONG = "x" * (limits.NAME_CHARS + 1)


def decode(*fields: object) -> events.EventRecord:
    return codec.decode_record(msgspec.msgpack.encode(fields))


def test_tags_are_those_of_the_protocol() -> None:
    """Tags are numbers of the wire: never renamed, never used again."""
    tags = [kind.__struct_config__.tag for kind in typing.get_args(events.EventRecord)]
    assert tags == [
        "define", "sample", "count", "gauge", "expect", "mark", "params", "scalars", "step_end", "span", "text",
        "artifact", "session", "uncounted", "counted", "axis", "table", "bins",
        "step_clear",
    ]  # fmt: skip


def test_the_stream_has_a_tag_of_its_own() -> None:
    """The stream has a tag that no producer's record has. The aggregator alone says what a step came to."""
    tags = {kind.__struct_config__.tag for kind in typing.get_args(events.Streamed)}
    sent = {kind.__struct_config__.tag for kind in typing.get_args(events.EventRecord)}
    assert tags - sent == {"step"}
    with pytest.raises(codec.Malformed):
        decode("step", "train", 1, {"loss": 0.5})


def test_only_definitions_instruments_and_steps_stay_off_the_stream() -> None:
    """The record stream carries what is a fact of its own."""
    off = set(typing.get_args(events.EventRecord)) - set(events.STREAMED)
    assert off == {
        events.Define,
        events.Sample,
        events.Count,
        events.Gauge,
        events.Uncounted,
        events.Counted,
        events.Scalars,
        events.StepEnd,
        events.StepClear,
    }


@pytest.mark.parametrize(
    "fields",
    [
        ("sample", "", 1.0),
        ("sample", LONG, 1.0),
        ("sample", "s", "1.0"),
        ("sample", "s", True),
        ("sample", "s", 1.0, -1),
        ("sample", "s", 1.0, 1 << 63),
        ("sample", "s", 1.0, 0, "u" * (limits.UNIT_CHARS + 1)),
        ("sample", "s", 1.0, 0, "", {"k": 1}),
        ("sample", "s", 1.0, 0, "", {"": "v"}),
        ("sample", "s", 1.0, 0, "", {"k" * (limits.LABEL_KEY_CHARS + 1): "v"}),
        ("sample", "s", 1.0, 0, "", {"k": "v" * (limits.LABEL_VALUE_CHARS + 1)}),
        ("sample", "s", 1.0, 0, "", {str(i): "v" for i in range(limits.LABEL_COUNT + 1)}),
        ("sample", "s"),
        ("define", -1, "s", "series"),
        ("define", limits.PRODUCER_IDS, "s", "series"),
        ("define", 0, "s", "histogram"),
        ("define", 0, "s", "series", "", {}, 0),
        ("define", 0, "s", "series", "", {}, 6),
        ("define", 0, "s", "series", "", {}, 3, 0.0),
        ("define", 0, "s", "series", "", {}, 3, 5e-324),
        ("define", 0, "s", "series", "", {}, 3, math.inf),
        ("define", 0, "s", "series", "", {}, 3, math.nan),
        ("define", 0, "s", "series", "", {}, 3, None, math.inf),
        ("expect", "n", -1.0),
        ("expect", "n", math.inf),
        ("expect", "n", math.nan),
        ("mark", "x" * (limits.TEXT_CHARS + 1)),
        ("params", {"p": [1]}),
        ("params", {"p": "x" * (limits.TEXT_CHARS + 1)}),
        ("params", {str(i): 1 for i in range(limits.PARAMS_PER_RECORD + 1)}),
        ("scalars", "step", 1 << 63, {}),
        ("scalars", "step", 1, {"loss": "low"}),
        ("define", 0, "s", "series", "", {}, 3, None, None, LONG),
        ("define", 0, "s", "series", "", {}, 3, None, None, None),
        ("uncounted", "text"),
        ("uncounted", "text", ""),
        ("uncounted", "x" * (limits.UNCOUNTED_CHARS + 1), "tokens"),
        ("uncounted", "text", "tokens", 0, {}, LONG),
        ("uncounted", "text", "tokens", 0, {}, "tpot", -1),
        ("uncounted", "text", "tokens", 0, {}, "tpot", 0, -1),
        ("counted", [-1]),
        ("counted", [1 << 63]),
        ("counted", list(range(limits.BATCH_RECORDS + 1))),
        ("counted", [0], -1),
        ("issued", 1),
        ("", 1),
        (1, 1),
        (),
    ],
    ids=lambda fields: repr(fields)[:40],
)
def test_records_beyond_the_rules_are_malformed(fields: tuple[object, ...]) -> None:
    """One bad record is one reason in the ledger."""
    with pytest.raises(codec.Malformed) as caught:
        decode(*fields)
    assert caught.value.reason == "malformed_record"


def test_values_that_are_no_numbers_reach_the_aggregator() -> None:
    """NaN and infinity are float64; the aggregator drops them by a reason of their own."""
    assert math.isnan(typing.cast(events.Sample, decode("sample", "s", math.nan)).value)
    assert decode("count", "c", math.inf) == events.Count("c", math.inf)


def test_integers_are_accepted_where_floats_are_meant() -> None:
    """Other languages write 1 for 1.0."""
    assert decode("sample", "s", 1) == events.Sample("s", 1.0)
    assert decode("scalars", "step", 1, {"loss": 2, "grad": None}) == events.Scalars(
        "step", 1, {"loss": 2.0, "grad": None}
    )


def test_a_scalar_that_is_no_number_survives_json() -> None:
    """Strict JSON has no NaN: it becomes null, and null is read back."""
    line = msgspec.json.encode(events.Scalars("step", 1, {"loss": math.nan}))
    assert msgspec.json.decode(line, type=events.Scalars) == events.Scalars("step", 1, {"loss": None})


def test_fields_that_came_later_are_ignored() -> None:
    """A record of a later minor version is read as far as we know it."""
    assert decode("mark", "warm", 5, {}, "later", [1, {"a": 2}]) == events.Mark("warm", 5)


def test_trailing_fields_may_be_left_out() -> None:
    """A small producer sends what it has."""
    assert decode("sample", "s", 2.5) == events.Sample("s", 2.5)
    assert decode("count", "c") == events.Count("c", 1.0)


def test_an_axis_of_before_closes_as_before() -> None:
    """The field of 1.4 is at the end and has a default; a rule that is none is refused."""
    assert decode("axis", "train", "sum", {"a": "max"}, 5) == events.Axis("train", "sum", {"a": "max"}, 5, "ended")
    assert decode("axis", "train", "sum", {}, 5, "reported") == events.Axis("train", "sum", {}, 5, "reported")
    groups: dict[str, int | str] = {"pp": 3, "node": "n3"}
    expected = events.Axis("train", "mean", {}, 5, "ended", [], groups, 29)
    assert decode("axis", "train", "mean", {}, 5, "ended", [], groups, 29) == expected
    with pytest.raises(codec.Malformed):
        decode("axis", "train", "sum", {}, 5, "late")


def test_a_clear_names_a_step_or_none() -> None:
    """A clear names a step, or means all open steps of the axis without one."""
    assert decode("step_clear", "train") == events.StepClear("train", None, 0)
    assert decode("step_clear", "train", 0) == events.StepClear("train", 0, 0)
    with pytest.raises(codec.Malformed):
        decode("step_clear", "train", 1.5)
