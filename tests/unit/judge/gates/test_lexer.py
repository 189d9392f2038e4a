"""The text of a gate, piece by piece, and errors that point into it."""

from __future__ import annotations

import pytest

from telemetry.errors import UsageError
from telemetry.judge.gates.lexer import Scanner, TextSpan, quoted, wrong


def test_an_error_points_at_its_place() -> None:
    """Three lines, and never a line end from outside."""
    assert str(wrong("lost = 0", TextSpan(5, 6), "no")) == "no\n  lost = 0\n       ^"
    assert str(wrong("lost", TextSpan(4, 4), "no")) == "no\n  lost\n      ^"
    assert str(wrong("a\nbc", TextSpan(2, 4), "no")) == "no\n  a\\nbc\n     ^^"
    assert str(wrong("漢 < x", TextSpan(4, 5), "no")) == "no\n  漢 < x\n       ^"


def test_pieces_are_read_where_they_stand() -> None:
    """The scanner reads each kind of piece where it stands and no other kind there."""
    scan = Scanner("  p99.9( a-b:c.d )<2.5ms /s")
    assert scan.number() is None
    assert scan.word() == ("p99.9", TextSpan(2, 7))
    assert scan.symbol("(") is not None
    assert scan.name() == ("a-b:c.d", TextSpan(9, 16))
    assert scan.symbol("[", ")") is not None
    assert scan.symbol("<=", "<") == ("<", TextSpan(18, 19))
    assert scan.number() == ("2.5", TextSpan(19, 22))
    assert scan.per_second() is False
    assert scan.glued() == ("ms", TextSpan(22, 24))
    assert scan.per_second() is False
    scan.skip()
    assert scan.found() == "`/`"
    assert not scan.ended


def test_units_may_follow_after_space_if_they_are_known() -> None:
    """Another word is not one."""
    assert Scanner(" ms").spaced(frozenset({"ms"})) is not None
    scan = Scanner("5 in")
    scan.number()
    assert scan.spaced(frozenset({"ms"})) is None
    assert scan.at == 1


@pytest.mark.parametrize("text", ["a b", 'say "x"', "back\\slash", "", "line\nend", "}"])
def test_quotes_hold_anything(text: str) -> None:
    """A name with any characters reads back after quoting."""
    token = Scanner(quoted(text)).name()
    assert token is not None
    assert token.text == text


def test_a_quote_needs_an_end() -> None:
    """A quote without an end is refused, and so is an escape other than those for quotes."""
    for text in ('"abc', '"ab\\n"'):
        with pytest.raises(UsageError, match="this quote is not closed"):
            Scanner(text).name()
