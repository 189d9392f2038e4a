"""The figures of a run that its user looks at first, for every screen and report. Pure."""

from __future__ import annotations

from telemetry.history.headlines.build import all_kinds, headline
from telemetry.history.headlines.concerns import NOT_FINITE, at_step, failures, names_not_finite, not_finite
from telemetry.history.headlines.model import Figure, Flavour, Headline, Health, compact, has_failures, makes_room
from telemetry.history.headlines.training import left_words

__all__ = [
    "NOT_FINITE",
    "Figure",
    "Flavour",
    "Headline",
    "Health",
    "all_kinds",
    "at_step",
    "compact",
    "failures",
    "has_failures",
    "headline",
    "left_words",
    "makes_room",
    "names_not_finite",
    "not_finite",
]
