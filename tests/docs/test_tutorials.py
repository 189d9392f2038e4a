"""The tutorials, the README and some other pages run as they stand there, and show what comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import ROOT, missing, run_page, shape

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
OTHERS = [ROOT / "docs" / name for name in ("QUICK_START.md", "NODES.md", "LAKE.md")]
PAGES = [ROOT / "README.md", *OTHERS, *TUTORIALS]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_page_runs_as_pasted(page: Path, ground: Any) -> None:
    """Every command ends as the page says, and prints the lines that the page shows."""
    commands = run_page(page, ground)
    assert commands, "the page has no command to run"
    for command in commands:
        assert missing(command.shown, command.output) == [], f"$ {command.text}{command.output}"


def test_numbers_may_differ_and_words_may_not() -> None:
    """A table of another run has the same shape; another name or verdict has not."""
    line = "  latency{route=/a}    752  65.5 ms  *107 ms"
    assert shape(line) == shape("  latency{route=/a}  1,004  935 µs  1.20 s")
    assert missing(line, "x\n  latency{route=/b}    752  65.5 ms  *107 ms\n") == [line]
    assert missing("name p50\n", "name  p50  p75\n") == []
    assert missing("a\n…\nc\n", "a\nb\nc\n") == []
    assert missing("c\na\n", "a\nb\nc\n") == ["a"]
    assert missing("a\n  c\n  b\n", "a\n  b\n  c\n") == []


def test_tutorials_are_short() -> None:
    """One goal each, and an end that says where to go next."""
    assert len(TUTORIALS) == 4
    for page in TUTORIALS:
        assert "\n## Where to go next\n" in page.read_text()
        assert page.read_text().count("\n") < 180, page
