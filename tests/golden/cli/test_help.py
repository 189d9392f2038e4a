"""Tests of the help of each command. A changed sentence shows in the diff of one file."""

from __future__ import annotations

from tests.golden.cli.help import FILE, text


def test_the_help_is_what_was_agreed() -> None:
    """`python -m tests.golden.cli.help` renews the file."""
    assert text() == FILE.read_text(encoding="utf-8")
