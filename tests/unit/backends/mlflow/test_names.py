"""Any name becomes a key of MLflow's, and comes back."""

from __future__ import annotations

import json
import posixpath
import re

from hypothesis import example, given
from hypothesis import strategies as st

from telemetry.backends.mlflow.names import LONGEST, SECONDS, Keys, cleaned, group_of
from telemetry.backends.naming import unescape

NAMES = st.text(st.characters() | st.sampled_from("./:%{} \n2F"), min_size=1, max_size=200)


def taken(key: str) -> bool:
    """Return whether MLflow itself would take the key."""
    return (
        re.fullmatch(r"[/\w.\- :]*", key) is not None
        and posixpath.normpath(key) == key
        and not key.startswith(("/", ".."))
        and key != "."
        and len(key) <= LONGEST
    )


@given(NAMES)
@example("/")
@example("//a")
@example("a/./..")
@example("a/../")
@example("a:2F")
def test_any_name_becomes_a_key_and_comes_back(name: str) -> None:
    """A key contains its name, so no two names have the same key."""
    assert unescape(cleaned(name), ":") == name
    assert taken(Keys().short(cleaned(name)))


def test_ordinary_names_stay_as_they_are() -> None:
    """Words, paths and letters of any language."""
    for name in ("loss", "train/loss", "a b-c_d.e/1", "größe/π", "a/.hidden"):
        assert cleaned(name) == name


@given(st.lists(st.tuples(st.sampled_from(["", "train", "a/b", ":", "seconds"]), NAMES), max_size=20, unique=True))
def test_one_name_of_two_axes_has_two_keys(pairs: list[tuple[str, str]]) -> None:
    """Two axes with one name have two keys, whichever comes first and whatever an axis is called."""
    keys = Keys()
    made = [keys.of(axis, name) for axis, name in pairs]
    assert len(set(made)) == len(pairs)
    assert all(map(taken, made))


def test_keys_go_on_from_their_state() -> None:
    """The first axis with a group has it for good; another one's names say whose they are."""
    keys = Keys()
    assert keys.of("train", "train/loss") == "train/loss"
    assert keys.of(SECONDS, "latency{route=/a}/p50") == "latency:7Broute:3D/a:7D/p50"
    again = Keys(json.loads(json.dumps(keys.owners)))
    assert again.tags == {}
    assert again.of("eval", "train/loss") == "train/loss: eval"
    assert again.of("eval", "latency/p50") == "latency/p50: eval"
    assert again.of(SECONDS, "train/rate") == "train/rate:seconds"
    assert again.of("train", "train/loss") == "train/loss"
    assert again.of("train", "epoch") == "epoch"
    assert again.tags == {"telemetry.axis/train": "train,epoch,"}
    assert group_of("latency{route=/a}/p50") == "latency"


def test_groups_of_an_axis_fit_in_tags() -> None:
    """A tag holds 8,000 characters: there are as many as it takes. From some number on no group has an owner."""
    keys = Keys()
    for number in range(10_001):
        keys.of("train", f"name{number}")
    assert keys.of("train", "name10000") == "name10000: train"
    assert max(map(len, keys.tags.values())) <= 8_000
    lists = [text for tag, text in keys.tags.items() if tag.startswith("telemetry.axis/train")]
    assert "".join(lists) == "".join(f"name{number}," for number in range(10_000))
    assert Keys(keys.owners).of("train", "name3") == "name3"
