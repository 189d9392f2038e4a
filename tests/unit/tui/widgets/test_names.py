"""Names that have no room keep what tells their rows apart."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from telemetry.tui.widgets.names import room_needed, told_apart

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


def rows(*instruments: str) -> tuple[str, ...]:
    """Of two models and three windows, with a label that all share."""
    models = ("meta-llama-3-70b-instruct", "meta-llama-3-8b-instruct")
    windows = ("warm-up", "measured at 100 per second", "measured at 200 per second")
    return tuple(
        f"chat-completions.{name}{{model={model},region=eu-west-1,window={window}}}"
        for name, model, window in product(instruments, models, windows)
    )


def test_what_values_share_goes_before_what_tells_them_apart() -> None:
    """Here they begin alike, and end alike."""
    assert told_apart(rows("latency"), 23) == (
        "…latency{…70b…,warm-up}",
        "…latency{…70b…,…100…}",
        "…latency{…70b…,…200…}",
        "…latency{…8b…,warm-up}",
        "…latency{…3-8b…,…100…}",
        "…latency{…3-8b…,…200…}",
    )
    assert told_apart(rows("latency"), 40)[1:3] == (
        "…latency{…llama-3-70b…,…at 100 per…}",
        "…latency{…llama-3-70b…,…at 200 per…}",
    )


def test_long_names_of_requests_differ_in_a_small_terminal() -> None:
    """Of all that a kind of request has."""
    names = rows("latency", "latency_corrected", "failed_latency", "queue_delay", "ttft", "tpot", "output_tokens")
    assert room_needed(names) <= 28
    for width in (21, 26, 40):
        assert len(set(told_apart(names, width))) == len(names)


def test_a_label_that_a_row_has_not_leaves_nothing_behind() -> None:
    """Unless rows would look the same."""
    names = ("failed{model=llama-70b}", "failed{model=llama-70b,reason=http_503}")
    assert told_apart(names, 17) == ("failed{…}", "failed{http_503}")
    longer = tuple(
        f"failed{{model=llama-{size},zone=a{where}}}" for size, where in product((7, 70), ("", ",why=x"))
    )
    assert told_apart(longer, 20) == (
        "failed{llama-7}",
        "failed{llama-7,x}",
        "failed{llama-70}",
        "failed{llama-70,x}",
    )
    assert told_apart(("n{alpha=1}", "n{beta=1}"), 7) == ("n{1,–}", "n{–,1}")


def test_all_of_one_unit_lose_it_alike() -> None:
    """A row that has room beside one that has none would look like another thing."""
    names = (
        "issued{window=first} [requests]",
        "failed{window=the first of many that are measured} [requests]",
        "failed{window=the second of many that are measured} [requests]",
        "body{window=first} [parts]",
    )
    assert told_apart(names, 35) == (
        "issued{window=first}",
        "failed{the first of … are measured}",
        "failed{the second of… are measured}",
        "body{window=first} [parts]",
    )


def test_rows_of_a_part_keep_their_place() -> None:
    """Below the row that they belong to."""
    names = ("chat", "  measured at 100 per second", "  measured at 200 per second")
    assert told_apart(names, 16) == ("chat", "  …at 100 per…", "  …at 200 per…")


KEYS = ("model", "window", "zone")
WORDS = st.sampled_from(("a", "b", "8b", "70b", "llama", "measured", "at", "1", "22", "测"))
TEXTS = st.lists(WORDS, min_size=1, max_size=7).flatmap(
    lambda words: st.sampled_from(("-", " ", ".", "_")).map(lambda between: between.join(words))
)
LABELS = st.dictionaries(st.sampled_from(KEYS), TEXTS, min_size=1).map(
    lambda labels: ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
)
NAMES = st.builds("{}{{{}}}".format, TEXTS, LABELS) | TEXTS | TEXTS.map("  {}".format)


@given(names=st.lists(NAMES, max_size=9, unique=True), more=st.integers(0, 30))
def test_from_what_they_need_on_no_two_names_look_the_same(names: list[str], more: int) -> None:
    """And none is wider than its room."""
    width = room_needed(tuple(names)) + more
    shown = told_apart(tuple(names), width)
    assert len(set(shown)) == len(names)
    assert all(cell_len(name) <= width for name in shown)


LONG = st.sampled_from(("measured at 1 per second", "measured at 22 per second", "日本 é warmup", "short")) | TEXTS
TABLES = st.lists(st.dictionaries(st.sampled_from(KEYS), LONG, min_size=1), max_size=6).map(
    lambda rows: {
        f"x.longlonglong{{{','.join(f'{key}={value}' for key, value in sorted(row.items()))}}}" for row in rows
    }
)


@given(names=TABLES, more=st.integers(0, 30))
def test_rows_that_lack_labels_of_others_differ_from_what_they_need_on(names: set[str], more: int) -> None:
    """What is left of a value looks neither like one of another label nor like none."""
    shown = told_apart(tuple(names), room_needed(tuple(names)) + more)
    assert len(set(shown)) == len(names)


def test_what_is_left_of_a_value_looks_neither_like_none_nor_like_that_of_another_label() -> None:
    """Where rows have as many labels, but others, `–` stands for those that they have not."""
    name = "x.longlonglonglonglonglong"
    lone = (f"{name}{{region=/search long-value-with-dashes per}}", f"{name}{{route=日本 é warmup}}")
    assert told_apart(lone, room_needed(lone)) == ("…lon…ng{/…r}", "…long…ong{…}")
    labels = ("model=measured at 1 per second", "window=measured at 22 per second", "zone=x")
    several = tuple(f"{name}{{{label}}}" for label in labels)
    assert told_apart(several, room_needed(several)) == ("…lon…ng{m…d,–}", "…lon…ng{–,m…d}", "…long…ong{–,–}")


SHARED = st.lists(st.sampled_from(("measured", "at", "per", "second")), max_size=5).map(" ".join)


@given(first=SHARED, last=SHARED, words=st.sets(st.sampled_from(("1", "22", "8b", "70b", "slow")), min_size=2))
def test_a_word_that_differs_needs_room_for_itself_alone(first: str, last: str, words: set[str]) -> None:
    """And a mark on either side, beside some of the instrument's name; however much the values share."""
    names = tuple(f"latency{{window={first} {word} {last}}}" for word in sorted(words))
    short = 8
    assert room_needed(names) <= len("la…ncy{}") + max(short, len("……") + max(map(len, words)))
