"""Names as MLflow takes them: letters, digits, `_ - .`, spaces and single slashes, 250 at most.

All else is written as `:` and two digits for each byte of its UTF-8. A colon without digits behind it is ours:

    train/loss                  a name of the axis that first had one of the group `train`
    train/loss: eval            the same name on another axis, here `eval`
    latency/p50:seconds         the same name among readings, which have the time as their axis
    …:_9c1185a5c5e9fc54         a name that is too long, whole in a tag
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from telemetry.backends.naming import escape

MARK: Final = ":"
LONGEST: Final = 250  # of a key, in MLflow's own tables
SECONDS: Final = ""
"""The axis of readings; one of steps is never empty."""
SECONDS_MARK: Final = ":seconds"
AXIS_TAG: Final = "telemetry.axis"
NAME_TAG: Final = "telemetry.name"
_PLAIN: Final = re.compile(r"[\w.\- /]")
_GROUPS: Final = 10_000  # whose axis is remembered; the state repeats them
_LIST_CHARS: Final = 7_500  # of a tag's 8,000
_REMEMBERED: Final = 50_000  # keys of a run with very many names; more are worked out again


def cleaned(name: str) -> str:
    """Another text for another name; `naming.unescape(text, MARK)` has the name back. It may be too long."""
    text = escape(name, "".join(sorted(set(_PLAIN.findall(name)))), MARK)
    joined = ""
    for number, part in enumerate(text.split("/")):
        if number:  # only a slash between two parts is one as paths go, and names must be paths
            joined += "/" if part and joined else f"{MARK}2F"
        joined += part.replace(".", f"{MARK}2E") if part in (".", "..") else part
    return joined


class Keys:
    """Which key a name of an axis has. The same names in the same order have the same keys, whenever `owners` is
    what it was at that point."""

    def __init__(self, owners: Mapping[str, str] | None = None) -> None:
        self.owners: dict[str, str] = {}
        """The group of a name, which is what stands before its first slash → the axis that has it to itself."""
        self.tags: dict[str, str] = {}
        """What a reader needs to have axes and names back, as far as it is not written yet: `telemetry.axis/AXIS`
        lists the groups of an axis, all others are of readings."""
        self._groups: dict[str, list[str]] = {}
        self._known: dict[tuple[str, str], str] = {}
        for group, axis in (owners or {}).items():
            self._own(group, axis)
        self.tags.clear()

    def of(self, axis: str, name: str) -> str:
        """A metric's; `axis` is SECONDS for readings."""
        found = self._known.get((axis, name))
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[axis, name] = self.short(self._qualified(axis, name))
        return found

    def short(self, text: str) -> str:
        """A text of `cleaned` in at most 250 characters."""
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
    """Labels, which may have slashes, are no part of it."""
    return name.partition("{")[0].partition("/")[0]
