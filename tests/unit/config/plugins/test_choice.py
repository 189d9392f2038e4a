"""The text that chooses a plug-in and sets its options."""

from __future__ import annotations

from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct, field

from telemetry.config.plugins.choice import Choice, Option, convert, options_of, parse
from telemetry.errors import UsageError

KNOWN = ("host", "scrape")


class Scrape(Struct, forbid_unknown_fields=True):
    url: str
    every_s: Annotated[float, Meta(gt=0)] = 1.0
    names: dict[str, str] = field(default_factory=dict)


def test_a_choice_has_a_kind_a_name_and_options() -> None:
    """The name is the kind, unless `as` says otherwise."""
    assert parse("host", noun="collector", known=KNOWN) == Choice("host", "host")
    found = parse(r"scrape:url=http://h:1/a\,b,as=vllm", noun="collector", known=KNOWN)
    assert found == Choice("vllm", "scrape", {"url": "http://h:1/a,b"})


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text()),
)
def test_a_choice_as_text_is_the_same_choice(name: str, options: dict[str, str]) -> None:
    """A choice is the same after it was written as text, whatever its values hold."""
    options = {key: value for key, value in options.items() if not key.endswith(("key", "token", "as", "secret"))}
    choice = Choice(name, "host", options)
    assert parse(str(choice), noun="collector", known=KNOWN) == choice


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hots", "no collector is named 'hots' .did you mean host?"),
        ("qq", "one of host, scrape"),
        ("scrape:url", "'url' is not an option of scrape"),
        ("scrape:as=a/b", "'a/b' is not a valid name for a collector"),
        ("scrape:token=1", "token is a secret"),
        ("scrape:url=a,url=b", "url is given twice"),
    ],
)
def test_an_error_says_what_would_be_right(text: str, words: str) -> None:
    """An error names the right choice before anything is imported."""
    with pytest.raises(UsageError, match=words):
        parse(text, noun="collector", known=KNOWN)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "scrape: object missing required field `url` .`telemetry plugins list --full`"),
        ({"url": "u", "evry_s": "1"}, "scrape has no option 'evry_s' .did you mean every_s?"),
        ({"url": "u", "qq": "1"}, "its options: as, every_s, names, url"),
        ({"url": "u", "every_s": "often"}, "scrape: every_s=often: expected `float`"),
        ({"url": "u", "every_s": "0"}, "every_s=0: expected `float` > 0"),
    ],
)
def test_an_option_that_does_not_fit_is_named(options: dict[str, str], words: str) -> None:
    """The error names the value that was given, and what is expected."""
    with pytest.raises(UsageError, match=words):
        convert(Choice("scrape", "scrape", options), Scrape, noun="collector")


def test_options_have_their_types() -> None:
    """Texts become numbers where the struct says so."""
    found = convert(Choice("a", "scrape", {"url": "7", "every_s": "2"}), Scrape, noun="collector")
    assert found == Scrape("7", 2.0)
    assert options_of(Scrape) == [
        Option("url", "str", ""),
        Option("every_s", "float", "1.0"),
        Option("names", "dict[str, str]", "{}"),
    ]
