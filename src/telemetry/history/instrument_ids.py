"""Identity of an instrument among those of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

SeriesId = tuple[str, tuple[tuple[str, str], ...]]
"""Name and sorted labels."""


class Named(Protocol):
    """A struct with the name and the labels of an instrument."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


def series_id(of: Named) -> SeriesId:
    """Return the id: name and sorted labels."""
    return of.name, tuple(sorted(of.labels.items()))
