"""Names of values that are shown: so many, and so many characters, for whoever comes first."""

from __future__ import annotations

import msgspec
import pytest

from telemetry import limits
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.steps.shown_names import ShownNames

WARNING = "values of more than 3 names of steps, or too long ones: the rest is not shown"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEP_NAMES_SHOWN", 3)
    monkeypatch.setattr(limits, "STEP_NAME_CHARS_SHOWN", 8)


def test_names_and_their_characters_are_bounded() -> None:
    """A name that is too long takes nothing from those that follow; what is not shown is told once."""
    warnings: list[str] = []
    showing = ShownNames(warnings.append)
    assert [showing.take(name) for name in ("x", "nine char", "five5", "yy", "z", "q")] == [
        *(True, False, True, True, False, False),
    ]
    assert warnings == [WARNING]


def test_a_restored_one_goes_on() -> None:
    """A restored object goes on with the room that was left, and does not repeat warnings."""
    warnings: list[str] = []
    showing = ShownNames(warnings.append)
    assert showing.take("five5")
    assert not showing.take("four")
    again = ShownNames(warnings.append)
    load(again, msgspec.msgpack.decode(encode(save(showing))))
    assert again.take_again(["five5"])
    assert not again.take("four")
    assert again.take("two")
    assert warnings == [WARNING]
    assert not ShownNames(warnings.append).take_again(["a", "b", "c", "d"])
    assert not ShownNames(warnings.append).take_again(["nine char"])
