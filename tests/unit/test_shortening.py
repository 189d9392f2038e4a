"""Texts in less room than they need still differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from telemetry.shortening import Shortened

WINDOWS = ("warm-up", "measured at 100 per second", "measured at 200 per second")


def cut(texts: tuple[str, ...], width: int) -> list[str]:
    known = Shortened(texts)
    return [known.cut(text, width) for text in texts]


def test_middles_go_where_the_rest_tells_texts_apart() -> None:
    """Most names differ at an end."""
    assert cut(("chat-completions", "text-embeddings", "short"), 9) == ["chat…ions", "text…ings", "short"]


def test_words_that_no_other_text_has_stay() -> None:
    """With those around them that have room, before them first."""
    assert cut(WINDOWS, 6) == ["war…up", "…100…", "…200…"]
    assert cut(WINDOWS, 15) == ["warm-up", "…at 100 per…", "…at 200 per…"]
    models = ("meta-llama-3-70b-instruct", "meta-llama-3-8b-instruct")
    assert cut(models, 15) == ["…llama-3-70b…", "…llama-3-8b…"]


def test_several_words_tell_apart_what_one_does_not() -> None:
    """Each word of these is in two of them."""
    texts = tuple(f"host {host} of rack {rack} in the hall" for host in ("a", "b") for rack in ("c", "d"))
    known = Shortened(texts)
    assert known.needs(texts[0]) == cell_len(texts[0])
    near = ("host a 1 in the hall", "host a 2 in the hall", "host b 1 in the hall", "host b 2 in the hall")
    assert cut(near, 7) == ["…a 1…", "…a 2…", "…b 1…", "…b 2…"]


def test_where_telling_words_have_no_room_either_only_the_middle_goes() -> None:
    """A word is not broken into."""
    assert cut(("aaa-bbbbbbbbbb-ccc", "aaa-dddddddddd-ccc"), 9) == ["aaa-…-ccc"] * 2
    assert cut(("abcdefghijkl",), 1) == ["…"]


TEXT = st.lists(st.sampled_from(("a", "b", "1", "22", "long", "测")), min_size=1, max_size=9).flatmap(
    lambda words: st.sampled_from(("-", " ", "_/")).map(lambda between: between.join(words))
)


@given(texts=st.sets(TEXT | st.text(max_size=12).filter(lambda text: "…" not in text), max_size=7), data=st.data())
def test_texts_differ_from_what_they_need_on(texts: set[str], data: st.DataObject) -> None:
    """Each in whatever room of its own, and never wider than that."""
    known = Shortened(texts)
    shown = []
    for text in sorted(texts):
        width = known.needs(text) + data.draw(st.integers(0, 9))
        shown.append(known.cut(text, width))
        assert cell_len(shown[-1]) <= width
    assert len(set(shown)) == len(shown)
