"""Names that MLflow accepts: letters, digits, `_ - .`, spaces and single slashes, at most 250 characters.

Other characters become `:` and two digits for each byte of their UTF-8. A colon without digits marks an addition:

  train/loss                  a name on the first axis that used the group `train`
  train/loss: eval            the same name on another axis, here `eval`
  latency/p50:seconds         the same name among readings, whose axis is time
  …:_9c1185a5c5e9fc54         a long name, shortened; the full name is in a tag
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from telemetry.backends.naming import escape

MARK: Final = ":"
LONGEST: Final = 250  # of a key, in MLflow's tables
SECONDS: Final = ""
"""Axis of readings. Axes of steps are never empty."""
SECONDS_MARK: Final = ":seconds"
AXIS_TAG: Final = "telemetry.axis"
NAME_TAG: Final = "telemetry.name"
_PLAIN: Final = re.compile(r"[\w.\- /]")
_GROUPS: Final = 10_000  # groups whose axis is remembered; the state contains all of them
_LIST_CHARS: Final = 7_500  # of the 8,000 characters of a tag
_REMEMBERED: Final = 50_000  # enough for the keys of most runs; further keys are computed again


def cleaned(name: str) -> str:
    """Escape a name. Different names stay different; `naming.unescape(text, MARK)` restores it. May be too long."""
    text = escape(name, "".join(sorted(set(_PLAIN.findall(name)))), MARK)
    joined = ""
    for number, part in enumerate(text.split("/")):
        if number:  # names must be valid paths, so only a slash between two parts is kept
            joined += "/" if part and joined else f"{MARK}2F"
        joined += part.replace(".", f"{MARK}2E") if part in (".", "..") else part
    return joined


class Keys:
    """The keys of names on axes. The same names in the same order yield the same keys if `owners` was the same."""

    def __init__(self, owners: Mapping[str, str] | None = None) -> None:
        self.owners: dict[str, str] = {}
        """Group of a name (the text before its first slash) → axis that uses it without a suffix."""
        self.tags: dict[str, str] = {}
        """Unwritten tags that let a reader restore axes and names.

        `telemetry.axis/AXIS` lists the groups of an axis. All other groups belong to readings.
        """
        self._groups: dict[str, list[str]] = {}
        self._known: dict[tuple[str, str], str] = {}
        for group, axis in (owners or {}).items():
            self._own(group, axis)
        self.tags.clear()

    def of(self, axis: str, name: str) -> str:
        """Return the key of a metric. `axis` is SECONDS for readings."""
        key = self._known.get((axis, name))
        if key is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            key = self._known[axis, name] = self.short(self._qualified(axis, name))
        return key

    def short(self, text: str) -> str:
        """Shorten a result of `cleaned` to at most 250 characters."""
        if len(text) <= LONGEST:
            return text
        digest = sha256(text.encode()).hexdigest()[:16]
        self.tags[f"{NAME_TAG}/{digest}"] = text
        return f"{text[: LONGEST - 18]}{MARK}_{digest}"

    def _qualified(self, axis: str, name: str) -> str:
        group = group_of(name)
        if group not in self.owners and len(self.owners) < _GROUPS:
            self._own(group, axis)
        if self.owners.get(group) == axis:
            return cleaned(name)
        return f"{cleaned(name)}{MARK} {cleaned(axis)}" if axis else f"{cleaned(name)}{SECONDS_MARK}"

    def _own(self, group: str, axis: str) -> None:
        self.owners[group] = axis
        if not axis:
            return
        lists = self._groups.setdefault(axis, [""])
        if len(lists[-1]) + len(cleaned(group)) >= _LIST_CHARS:
            lists.append("")
        lists[-1] += f"{cleaned(group)},"
        number = f"{MARK} {len(lists)}" if len(lists) > 1 else ""
        self.tags[self.short(f"{AXIS_TAG}/{cleaned(axis)}{number}")] = lists[-1]


def group_of(name: str) -> str:
    """Return the group of a name. Labels are ignored, because they may contain slashes."""
    return name.partition("{")[0].partition("/")[0]
