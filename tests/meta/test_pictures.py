"""docs/pictures has what the two scripts of `make pictures` draw, and pages show it."""

from __future__ import annotations

from pathlib import Path

from tests.golden.report import draw as pages
from tests.golden.tui import draw as cockpit

ROOT = Path(__file__).parents[2]
DRAWN = {*cockpit.PICTURES, *pages.PICTURES}


def test_every_picture_is_drawn_by_a_script() -> None:
    """So that none shows what telemetry looked like long ago."""
    assert {path.stem for path in (ROOT / "docs" / "pictures").glob("*.png")} == DRAWN
    assert not cockpit.PICTURES.keys() & pages.PICTURES.keys()


def test_every_picture_is_shown() -> None:
    """By a page of docs/ or the README."""
    texts = [path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
    assert {name for name in DRAWN if not any(f"pictures/{name}.png" in text for text in texts)} == set()


def test_every_stored_picture_is_there() -> None:
    """That of the tests of the cockpit, which the script draws."""
    assert [name for name in cockpit.PICTURES.values() if not (cockpit.STORED / f"{name}.svg").exists()] == []
