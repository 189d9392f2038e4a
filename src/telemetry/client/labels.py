"""Labels of a call: a mapping, keywords, or both. Also finds keywords that were meant to be options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from telemetry.errors import InstrumentError

_OPTIONS: Final = ("unit", "digits", "low", "high", "labels", "expire_s", "stop_when")
"""Options of all instruments. A keyword with one of these names is an option, never a label."""
_LETTERS: Final = 4
"""Minimum length of an option to compare by similarity.

Shorter options resemble good labels: `low` resembles `flow`.
"""
_SIMILARITY: Final = 0.81
"""Minimum similarity by difflib: one letter added, removed or changed, or two letters swapped."""


def joined(labels: Mapping[str, object] | None, more_labels: Mapping[str, object]) -> Mapping[str, object]:
    """Return the labels of a call; a keyword wins over the mapping."""
    return {**labels, **more_labels} if labels else more_labels


def named(
    kind: str,
    name: str,
    options: tuple[str, ...],
    labels: Mapping[str, object] | None,
    more_labels: Mapping[str, object],
) -> Mapping[str, object]:
    """Return the labels of an instrument. Raise InstrumentError for a keyword that was meant to be an option.

    Only keywords are checked. Use `labels={"units": …}` for a label that looks like an option.
    """
    if labels is not None and not isinstance(labels, Mapping):
        raise InstrumentError(f"{name!r}: labels must be a mapping, not {type(labels).__name__}")
    for key, value in more_labels.items():
        if option := _option_meant(key):
            problem = f"no option {key!r}" if option in options else f"no option {option!r}"
            remedy = f"write {option}={value!r}, or " if option in options else ""
            raise InstrumentError(
                f"{name!r}: {kind} has {problem}", hint=f"{remedy}labels={{{key!r}: {value!r}}} for a label"
            )
    return joined(labels, more_labels)


@lru_cache(maxsize=1_024)  # an instrument may be requested often, and difflib takes 0.1 ms
def _option_meant(key: str) -> str:
    """Return the option that a keyword equals or resembles, or an empty string for a label."""
    if key in _OPTIONS:
        return key
    if key.startswith("expir"):
        return "expire_s"
    import difflib

    long = [option for option in _OPTIONS if len(option) >= _LETTERS]
    return next(iter(difflib.get_close_matches(key, long, 1, _SIMILARITY)), "")
