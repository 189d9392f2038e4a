"""The figures of a run that its user looks at first, for every screen and report. Pure."""

from __future__ import annotations

from telemetry.headlines.build import all_kinds, headline
from telemetry.headlines.compact import compact
from telemetry.headlines.model import Figure, Flavour, Headline, Health, has_failures, makes_room

__all__ = [
    "Figure",
    "Flavour",
    "Headline",
    "Health",
    "all_kinds",
    "compact",
    "has_failures",
    "headline",
    "makes_room",
]
