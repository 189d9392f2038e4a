"""Cards of runs: the drawing, the seal in it, and what a check of it finds."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.report.html.samples import EVIL

from telemetry.common.formatting import printable
from telemetry.report.card import checked, drawn
from telemetry.report.card.card import LAYOUT, Card, CardFigure, Difference, SealedFile, check_facts

SUFFIXES = [".svg", ".md"]
FIGURE = CardFigure(
    title="latency p99",
    text="566 ms",
    note="p50 391 ms",
    bounds="547–584 ms",
    low=0.547,
    high=0.584,
    value=0.566,
    unit="s",
    health="plain",
)


def card(**changes: Any) -> Card:
    """Return a card with some fields replaced."""
    plain = Card(
        layout=LAYOUT,
        sealed_with="1.2.3",
        run_id="abc",
        name="load test",
        completeness="complete",
        headline="complete: load test, 1,000 of 1,000 events applied, 0 lost",
        alarms=[],
        cautions=[],
        confidence="95 %",
        subject="chat",
        figures=[FIGURE, replace(FIGURE, title="failed", text="3 (0.3 %)", bounds="", value=3.0, health="warn")],
        facts=[("command", [("", "python bench.py")]), ("code", [("commit", "a" * 40), ("changed files", "0")])],
        files=[SealedFile(path="journal/00000000.seg", size=2048, sha256="0" * 64)],
    )
    return replace(plain, **changes)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_card_is_read_from_what_is_drawn(suffix: str) -> None:
    """A check returns the facts, and the signature beside them."""
    assert checked(drawn(card(), suffix)) == (card(), card().digest(), "")
    assert checked(drawn(card(), suffix, "ssh QUJD")).signature == "ssh QUJD"
    assert checked(drawn(card(), suffix).replace("\n", "\r\n")).card == card()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_other_tools_can_check_the_digest(suffix: str) -> None:
    """The only line that begins with a brace has the facts, and its SHA-256 is the next line."""
    lines = drawn(card(), suffix).splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith("{")]
    assert lines[at + 1] == f"sha256 {hashlib.sha256(lines[at].encode()).hexdigest()}"
    assert json.loads(lines[at])["figures"][0]["value"] == 0.566
    assert lines[at].isascii()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_changed_character_of_a_card_is_noticed(suffix: str) -> None:
    """No change of one character leaves a card that passes the check."""
    text = drawn(card(), suffix, "ssh QUJD")
    signature = text.index("ssh QUJD") + 4
    for at in range(len(text)):
        if signature <= at < signature + 4:  # for the program that checks signatures
            continue
        for character in ("7", "\n"):
            if text[at] != character:
                with pytest.raises(Difference):
                    checked(text[:at] + character + text[at + 1 :])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_edited_number_is_named(suffix: str) -> None:
    """The message has the line as it is shown, and as the facts give it."""
    with pytest.raises(Difference, match=r"466 ms.*566 ms"):
        checked(drawn(card(), suffix).replace("566 ms", "466 ms", 1 if suffix == ".md" else 2))
    with pytest.raises(Difference, match="line "):
        checked(drawn(card(), suffix) + "more")


def test_facts_that_are_not_canonical_or_unknown_are_refused() -> None:
    """Nothing can be hidden in the facts, and another layout is named."""
    text, facts = drawn(card(), ".svg"), card().canonical()
    for other in (facts.replace('"layout":1', '"layout": 1'), facts.replace('"layout":1', '"kayout":1,"layout":1')):
        forged = text.replace(facts, other)
        forged = forged.replace(card().digest(), hashlib.sha256(other.encode()).hexdigest())
        with pytest.raises(Difference, match="facts"):
            checked(forged)
    with pytest.raises(Difference, match="layout 2"):
        checked(drawn(card(layout=2), ".svg"))
    with pytest.raises(Difference, match="no seal"):
        checked("# A page\n")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_hostile_names_stay_text(suffix: str) -> None:
    """Markup, ends of comments and direction characters in names do not leave their places."""
    evil = printable(f"{EVIL}--> ]]> </metadata> \u202e `|`")
    figures = [replace(FIGURE, title=evil, text=evil, note=evil) for _ in range(8)]
    hostile = card(
        name=evil,
        headline=evil,
        alarms=[evil],
        cautions=[evil] * 6,
        subject=evil,
        figures=figures,
        facts=[("command", [(evil, evil)] * 3)],
    )
    text = drawn(hostile, suffix)
    assert checked(text).card == hostile
    assert "<script" not in text
    if suffix == ".svg":
        names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
        assert names == {"svg", "title", "desc", "style", "rect", "text", "metadata"}
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    else:
        assert text.count("-->") == 1


def test_long_texts_are_cut() -> None:
    """No text of the drawing is longer than its place, also one of wide characters."""
    long = "訓練" * 400
    text = drawn(card(name=long, headline=long, facts=[("command", [("", long)])], subject=long), ".svg")
    texts = [element.text or "" for element in ElementTree.fromstring(text).iter() if element.tag.endswith("}text")]
    assert max(map(len, texts)) <= len("sha256 ") + 64
    assert sum(text.endswith("…") for text in texts) == 3


def test_the_first_figure_that_differs_is_named() -> None:
    """The message has both values; a tolerance lets a figure differ as far as its error bound."""
    other = card(figures=[replace(FIGURE, text="567 ms", value=0.567), *card().figures[1:]])
    with pytest.raises(Difference, match=r"latency p99: the card has 566 ms .*, the journal gives 567 ms"):
        check_facts(card(), other, 0.0)
    check_facts(card(), other, 0.01)
    with pytest.raises(Difference, match="latency p99"):
        check_facts(card(), other, 0.001)
    with pytest.raises(Difference, match=r"failed: the card has .*no such figure"):
        check_facts(card(), card(figures=[FIGURE]), 0.0)


def test_another_fact_that_differs_is_named() -> None:
    """A command, a commit or a verdict that the run does not have is found."""
    with pytest.raises(Difference, match=r"command: .*bench.py.*other.py"):
        check_facts(card(), card(facts=[("command", [("", "python other.py")]), *card().facts[1:]]), 0.0)
    with pytest.raises(Difference, match="code: "):
        check_facts(card(), card(facts=card().facts[:1]), 0.0)
    with pytest.raises(Difference, match=r"completeness: .*lossy"):
        check_facts(card(), card(completeness="lossy"), 0.0)


def test_the_facts_survive_a_round_trip() -> None:
    """A card that is decoded has the same line of facts."""
    again = msgspec.json.decode(card().canonical(), type=Card)
    assert again.canonical() == card().canonical()
