"""Tests that docs/pictures has what the two scripts of `make pictures` draw. Pages show each picture."""

from __future__ import annotations

from pathlib import Path

from tests.golden.report import draw as pages
from tests.golden.tui import draw as cockpit

ROOT = Path(__file__).parents[2]
DRAWN = {*cockpit.PICTURES, *pages.PICTURES}


def test_every_picture_is_drawn_by_a_script() -> None:
    """A script draws every picture, so that none shows how telemetry looked long ago."""
    assert {path.stem for path in (ROOT / "docs" / "pictures").glob("*.png")} == DRAWN
    assert not cockpit.PICTURES.keys() & pages.PICTURES.keys()


def test_every_picture_is_shown() -> None:
    """A page of docs/ or the README shows each picture."""
    texts = [path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
    assert {name for name in DRAWN if not any(f"pictures/{name}.png" in text for text in texts)} == set()


def test_every_stored_picture_is_there() -> None:
    """Each picture of the cockpit's tests that the script draws is stored."""
    assert [name for name in cockpit.PICTURES.values() if not (cockpit.STORED / f"{name}.svg").exists()] == []
