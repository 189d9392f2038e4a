"""The choice of metrics by patterns: `vllm:*|node_cpu*|!*_created`."""

from __future__ import annotations

import re
from fnmatch import translate


class MetricSelection:
    """Patterns with `*`, `?` and `[…]`, separated by `|`. A pattern that begins with `!` leaves metrics out."""

    def __init__(self, text: str) -> None:
        patterns = [word.strip() for word in text.split("|") if word.strip()]
        self._wanted = _joined([word for word in patterns if not word.startswith("!")])
        self._unwanted = _joined([word[1:] for word in patterns if word.startswith("!")])

    @property
    def is_explicit(self) -> bool:
        """True if there is a pattern for what is wanted."""
        return self._wanted is not None

    def wants(self, family: str, name: str) -> bool:
        """Return whether a metric is chosen, by its own name or by that of its histogram or summary."""
        if self._unwanted is not None and (self._unwanted.match(family) or self._unwanted.match(name)):
            return False
        return self._wanted is None or bool(self._wanted.match(family) or self._wanted.match(name))


def _joined(patterns: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(translate(pattern) for pattern in patterns)) if patterns else None
