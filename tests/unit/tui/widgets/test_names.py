"""Names that have no room keep what tells their rows apart."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from telemetry.tui.widgets.names import told_apart

SHOP = tuple(
    f"latency{{region={region},route=/{route}}}"
    for route, region in product(("search", "checkout", "cart"), ("eu", "us", "ap"))
)


def test_names_that_have_room_stay_as_they_are() -> None:
    """Nothing is gained by cutting them."""
    assert told_apart(SHOP, 40) == SHOP
    assert told_apart((), 10) == ()


def test_shared_labels_go_first() -> None:
    """They tell no row from another; `…` says that there was something."""
    names = ("latency{env=staging,route=/cart}", "latency{env=staging,route=/pay}")
    assert told_apart(names, 26) == ("latency{…,route=/cart}", "latency{…,route=/pay}")


def test_then_values_stand_without_their_keys() -> None:
    """In all rows of a name alike, whether they have room or not."""
    shown = told_apart(SHOP, 22)
    assert shown[:4] == (
        "latency{eu,/search}",
        "latency{us,/search}",
        "latency{ap,/search}",
        "latency{eu,/checkout}",
    )
    assert "=" not in "".join(shown)


@pytest.mark.parametrize("width", [16, 18, 20, 24, 30])
def test_no_two_rows_look_the_same(width: int) -> None:
    """The name they share is cut before the values that differ."""
    shown = told_apart(SHOP, width)
    assert len(set(shown)) == len(SHOP)
    assert all(cell_len(name) <= width for name in shown)


def test_pins_stay_and_single_rows_lose_their_labels() -> None:
    """A mark in front is not part of the name."""
    pinned = ("★ latency{region=eu,route=/search}", *SHOP[1:])
    assert told_apart(pinned, 22)[0] == "★ latency{eu,/search}"
    alone = ("http_request_duration{method=GET}", "http_request_size{method=GET}")
    shown = told_apart(alone, 18)
    assert shown[0] != shown[1]
    assert shown[0].startswith("http_re")


def test_names_of_another_form_lose_their_middle() -> None:
    """Ends differ more often than middles."""
    assert told_apart(("a" * 30 + "1", "a" * 30 + "2"), 11) == ("aaaaa…aaaa1", "aaaaa…aaaa2")
    assert told_apart(("odd{a,b=}" + "x" * 20,), 9) == ("odd{…xxxx",)


@given(names=st.lists(st.text(max_size=30) | st.sampled_from(SHOP), max_size=6), width=st.integers(1, 40))
def test_all_keep_to_the_width(names: list[str], width: int) -> None:
    """Whatever a name holds, and however little room there is."""
    shown = told_apart(tuple(names), width)
    assert len(shown) == len(names)
    assert all(cell_len(name) <= width for name in shown)


def test_labels_without_which_rows_still_differ_go_too() -> None:
    """A route that has a model of its own needs no model."""
    pairs = (("chat", "llama-70b"), ("embed", "bge-large"), ("rerank", "bge-large"))
    names = tuple(f"request{{model={model},route=/v1/{route}}}" for route, model in pairs)
    assert told_apart(names, 19) == ("request{/v1/chat}", "request{/v1/embed}", "request{/v1/rerank}")


def test_what_all_names_begin_with_goes_before_what_follows_it() -> None:
    """With all that have this front alike; a rest that another name has, too, would not tell them apart."""
    names = tuple(
        f"{name}{{model=m,window={window}}}"
        for name, window in product(
            ("chat.latency", "chat.queue_delay", "chat.latency_corrected", "embed.tpot", "chat.ttft", "embed.ttft"),
            ("warm-up", "measured"),
        )
    )
    shown = told_apart(names, 21)
    assert shown[0::2] == (
        "…latency{warm-up}",
        "…queue_delay{warm-up}",
        "…laten…ected{warm-up}",
        "embed.tpot{warm-up}",
        "chat.ttft{warm-up}",
        "embed.ttft{warm-up}",
    )
    assert len(set(shown)) == len(names)
