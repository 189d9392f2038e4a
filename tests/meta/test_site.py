"""The site has every page, and its builder notices a link that leads nowhere."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NAV = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
LEFT_OUT = (
    *("docs/adr/0*.md", "docs/FUZZING.md", "docs/RING.md", "docs/SIMULATOR.md", "docs/VERDICTS.md"),
    *("docs/backends/TIMELINE.md", "docs/collectors/WRITING.md", "examples/producer-*/README.md"),
)
"""Pages that `not_in_nav` names: for maintainers, or with details of a page."""
GENERATED = {f"docs/reference/{name}.md" for name in ("api", "cli", "settings", "sample-report")}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a script of docs/site."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    yield import_module
    for name in ("generate", "links"):
        sys.modules.pop(name, None)


def test_every_page_is_in_the_navigation_or_is_linked_from_it() -> None:
    """A page that is not listed could be found by search alone."""
    patterns = (ROOT / "mkdocs.yml").read_text().partition("not_in_nav: |\n")[2].partition("\n\n")[0]
    assert tuple(pattern.strip().removeprefix("/") for pattern in patterns.splitlines()) == LEFT_OUT
    left_out = {path.relative_to(ROOT).as_posix() for pattern in LEFT_OUT for path in ROOT.glob(pattern)}
    left_out = {page for page in left_out if "template" not in page}
    pages = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md") if "template" not in path.name}
    listed = set(re.findall(r": (\S+\.md)$", NAV, re.MULTILINE))
    assert pages - listed - left_out == set()
    assert listed & left_out == set()
    linked = {
        (ROOT / page).parent.joinpath(link).resolve().relative_to(ROOT).as_posix()
        for page in listed - GENERATED
        for link in re.findall(r"\]\(([\w./-]+\.md)", (ROOT / page).read_text())
    }
    assert left_out - linked == set()
    assert len(listed) <= 60


def test_the_navigation_lists_pages_that_exist() -> None:
    """Each is in the repository, or is generated."""
    listed = set(re.findall(r": (\S+\.md)$", NAV, re.MULTILINE))
    assert {page for page in listed - GENERATED if not (ROOT / page).is_file()} == set()
    assert listed >= GENERATED


def test_broken_links_are_found(site: Any, tmp_path: Path) -> None:
    """Pages, headings, pictures, folders, and what would need a network."""
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="#top"></a><a href="b.html#there"></a><a href="https://example.org/"></a>'
        '<a href="#nowhere"></a><a href="b.html#nowhere"></a><a href="c.html"></a><img src="c.png">'
        '<a href="folder"></a><script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h1 id="there"></h1>')
    (tmp_path / "folder").mkdir()
    found = [link for _, link in site("links").broken(tmp_path)]
    assert found == ["#nowhere", "b.html#nowhere", "c.html", "c.png", "folder", "https://example.org/x.js"]


def test_the_reference_has_every_command_and_setting(site: Any) -> None:
    """All that the parser and the schema know."""
    from telemetry.cli.main import COMMANDS
    from telemetry.config.schema import Config

    generate = site("generate")
    commands = generate.commands()
    assert [name for name in COMMANDS if f"\n## telemetry {name}\n" not in commands] == []
    assert "`--gate EXPR`" in commands
    settings = generate.settings()
    for section in Config.__struct_fields__:
        for key in getattr(Config(), section).__struct_fields__:
            assert f"\n### {section}.{key}\n" in settings
    assert "`TELEMETRY_RUN__REFRESH_HZ`" in settings


def test_the_reference_has_every_public_name(site: Any) -> None:
    """A name in `telemetry.__all__` is documented, or calls a method that is."""
    import telemetry

    page = site("generate").api()
    names = [name for name in telemetry.__all__ if not name.startswith("_")]
    assert [
        name for name in names if f"::: telemetry.{name}\n" not in page and f"`telemetry.{name}`" not in page
    ] == []
