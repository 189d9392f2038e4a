"""Tests of the items that backends get, as a set of kinds."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from telemetry.backends.items import KINDS, Item, Step, without_gaps


def test_every_kind_is_in_the_list() -> None:
    """A backend that takes `KINDS` takes all there is; names tell them apart, and each has its key and time."""
    assert set(KINDS) == set(get_args(Item))
    assert len({kind.__name__.lower() for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        assert [field.name for field in msgspec.structs.fields(kind)][:2] == ["key", "time_ns"]


def test_items_dont_change() -> None:
    """The same one comes again after a failure."""
    step = Step(key="r0", time_ns=0, axis="a", step=0, values={})
    with pytest.raises(AttributeError):
        step.step = 1  # type: ignore[misc]


def test_cells_become_bins_without_gaps() -> None:
    """A gap between cells is an empty bin."""
    assert without_gaps([(1.0, 2.0, 3), (2.0, 3.0, 1), (8.0, 9.0, 2)]) == ([1.0, 2.0, 3.0, 8.0, 9.0], [3, 1, 0, 2])
    assert without_gaps([]) == ([], [])
