"""Programs of other systems as their documents show them, with another import. `sample` reads one."""

from __future__ import annotations

from pathlib import Path


def sample(name: str, replaced: dict[str, str] | None = None) -> str:
    """Return the text of a program. `replaced` has texts for its placeholders, each of which must be there."""
    text = (Path(__file__).parent / f"{name}.py").read_text()
    for placeholder, own in (replaced or {}).items():
        assert placeholder in text, f"{name} has no {placeholder!r}"
        text = text.replace(placeholder, own)
    return text
