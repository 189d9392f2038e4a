"""Facts about a run itself, which need no instrument."""

from __future__ import annotations

from typing import Final

FACTS: Final[dict[str, tuple[str, str]]] = {
    "lost": ("", "events that were emitted but are not counted"),
    "missing": ("", "of these, events that were sent but never arrived"),
    "emitted": ("", "events of all producers"),
    "applied": ("", "events that are counted"),
    "repaired": ("", "batches that were missing and arrived later"),
    "salvaged": ("", "events that were read from the memory of killed processes"),
    "producers": ("", "how many there were, on all nodes"),
    "nodes": ("", "how many nodes the run has"),
    "incomplete_nodes": ("", "nodes whose events are not all counted, or not known"),
    "elapsed": ("s", "how long the run took"),
    "straggler": ("", "cost of the worst slow rank, as a share of a step; 0 if no rank is named"),
    "straggler.cost": ("s", "the same as a time"),
    "command.exit_code": ("", "exit code of the command; 128 + n if signal n ended it"),
    "command.wall": ("s", "time from its start to its end"),
    "command.cpu": ("s", "CPU time of the command, user and system"),
    "command.max_rss": ("B", "its peak memory"),
}
"""Name → (unit, meaning)."""

WORD_FACTS: Final[dict[str, tuple[str, ...]]] = {
    "completeness": ("complete", "lossy", "incomplete", "interrupted"),
}
"""Facts with words as values → the words."""
