"""Names of rows in the width of their column."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from telemetry.tui.model.names import fitted_names

SHOP = tuple(
    f"latency{{region={region},route=/{route}}}"
    for route, region in product(("search", "checkout", "cart"), ("eu", "us", "ap"))
)


def test_names_that_have_room_stay_as_they_are() -> None:
    """Names that have room stay as they are, as nothing is gained by cutting them."""
    assert fitted_names(SHOP, 40) == SHOP
    assert fitted_names((), 10) == ()


def test_shared_labels_go_first() -> None:
    """Shared labels go first, as they tell no row from another. The sign `…` shows that something was left out."""
    names = ("latency{env=staging,route=/cart}", "latency{env=staging,route=/pay}")
    assert fitted_names(names, 26) == ("latency{…,route=/cart}", "latency{…,route=/pay}")


def test_labels_that_all_rows_of_a_table_share_go_first() -> None:
    """Labels that all rows of a table share go first, also where an instrument has a single row.

    Rows without labels tell that they have none.
    """
    names = ("ttft{model=llama-70b}", "tpot{model=llama-70b}", "errors", "latency{model=llama-70b,route=/a}")
    assert fitted_names(names, 40) == names
    assert fitted_names(names, 19) == ("ttft{…}", "tpot{…}", "errors", "latency{…,route=/a}")
    assert fitted_names(names, 12) == ("ttft{…}", "tpot{…}", "errors", "latency{/a}")
    assert fitted_names(names[:1], 16) == ("ttft{llama-70b}",)


def test_then_values_stand_without_their_keys() -> None:
    """All rows of an instrument are written alike."""
    assert fitted_names(SHOP, 22)[:4] == (
        "latency{eu,/search}",
        "latency{us,/search}",
        "latency{ap,/search}",
        "latency{eu,/checkout}",
    )
    assert "=" not in "".join(fitted_names(SHOP, 22))


@pytest.mark.parametrize("width", [16, 18, 20, 24, 30])
def test_no_two_rows_of_a_shop_look_the_same(width: int) -> None:
    """The name they share is cut before the values that differ."""
    shown = fitted_names(SHOP, width)
    assert len(set(shown)) == len(SHOP)
    assert all(cell_len(name) <= width for name in shown)


def test_pins_stay_and_single_rows_lose_their_labels() -> None:
    """A mark in front is not part of the name."""
    pinned = ("★ latency{region=eu,route=/search}", *SHOP[1:])
    assert fitted_names(pinned, 22)[0] == "★ latency{eu,/search}"
    alone = ("http_request_duration{method=GET}", "http_request_size{method=GET}")
    assert fitted_names(alone, 24) == ("http_request_duration{…}", "http_request_size{…}")


def test_rows_below_another_keep_their_indent() -> None:
    """Spaces in front are a mark as well."""
    assert fitted_names(("  latency{region=eu,route=/search}", *SHOP[1:]), 22)[0] == "  latency{eu,/search}"


def test_a_missing_label_leaves_no_gap() -> None:
    """The other values stand alone."""
    assert fitted_names(("latency{region=eu}", "latency{region=eu,route=/search}"), 20) == (
        "latency{…}",
        "latency{/search}",
    )


def test_names_of_another_form_lose_their_middle() -> None:
    """Ends differ more often than middles. A value with a comma makes another form."""
    assert fitted_names(("a" * 30 + "1", "a" * 30 + "2"), 11) == ("aaaaa…aaaa1", "aaaaa…aaaa2")
    assert fitted_names(("odd{a,b=}" + "x" * 20,), 9) == ("odd{…xxxx",)


def test_without_room_for_values_they_lose_their_middle_too() -> None:
    """Six columns of the instrument's name stay."""
    names = ("latency{window=measured at 200 per second}", "latency{window=measured at 400 per second}")
    assert fitted_names(names, 20) == ("lat…cy{measur…econd}", "lat…cy{measur…econd}")


@given(names=st.lists(st.text(max_size=30) | st.sampled_from(SHOP), max_size=6), width=st.integers(1, 40))
def test_all_keep_to_the_width(names: list[str], width: int) -> None:
    """Names keep to the width, whatever they contain and however little room there is."""
    shown = fitted_names(tuple(names), width)
    assert len(shown) == len(names)
    assert all(cell_len(name) <= width for name in shown)
