"""Tests of the parts of the records of event files."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.items import Item, Step, Text
from telemetry.backends.tensorboard.backend import Encoder, settings, table

pytestmark = pytest.mark.sdk

STARTED_NS = 1_000_000_000_000


def test_settings_are_what_the_plugin_can_carry() -> None:
    """Settings for the plugin have no null, nothing infinite, and no number that would lose digits."""
    given_values = {"a": None, "b": math.nan, "c": 1 << 60, "d": 3, "e": True, "f": "x", "g": 0.5}
    assert settings(given_values) == {
        "a": "null",
        "b": "nan",
        "c": str(1 << 60),
        "d": 3,
        "e": True,
        "f": "x",
        "g": 0.5,
    }


def test_a_table_in_markdown() -> None:
    """Bars and line ends of cells do not break it."""
    assert table(["a|b", "c"], [["x\ny", None], [1, "\\|"]]) == (
        "| a\\|b | c |\n| --- | --- |\n| x y |  |\n| 1 | \\\\\\| |"
    )


@given(st.floats(), st.text(st.characters(codec="utf-8"), max_size=20), st.integers(-(1 << 63), (1 << 63) - 1))
def test_the_same_item_is_the_same_bytes(number: float, name: str, at: int) -> None:
    """The same item has the same bytes in any order, from any encoder.

    A file that is written again is thus the same file.
    """
    from tensorboard.compat.proto.event_pb2 import Event

    items: list[Item] = [
        Step(key="r1", time_ns=STARTED_NS, axis="train", step=at, values={name: number}),
        Text(key="r2", time_ns=STARTED_NS, name=name, text=name),
    ]
    one, other = (Encoder(STARTED_NS, doubles=False, spread=False) for _ in range(2))
    forwards = [list(one.records(item)) for item in items]
    backwards = [list(other.records(item)) for item in reversed(items)]
    assert forwards == backwards[::-1]
    assert Event.FromString(forwards[0][0][1][12:-4]).step == at
