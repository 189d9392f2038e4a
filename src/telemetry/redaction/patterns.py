"""Patterns of the user: `NAME=REGEX`, each a rule of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from telemetry import limits
from telemetry.errors import UsageError
from telemetry.redaction import named, personal, tokens

BUILT_IN: Final = frozenset({*named.RULES, *tokens.RULES, *personal.RULES})
"""Names of the rules of this package."""
_NAME: Final = re.compile(r"[A-Za-z][\w.-]*")
_SAMPLES: Final = ("", "a", "0", " ", "a b-c_1")
_FORM: Final = "write NAME=REGEX, such as ticket=TICKET-[0-9]{6}"


def check_patterns(patterns: Sequence[str]) -> dict[str, re.Pattern[str]]:
    """Return the patterns by name. Raise UsageError for a pattern that is wrong, and for too many."""
    if len(patterns) > limits.REDACT_PATTERNS:
        raise UsageError(
            f"{len(patterns)} redaction patterns are too many", hint=f"give at most {limits.REDACT_PATTERNS}"
        )
    pattern_by_name: dict[str, re.Pattern[str]] = {}
    for text in patterns:
        name, pattern = _checked(text)
        if name in pattern_by_name:
            raise UsageError(f"two redaction patterns are named {name!r}", hint="give each a name of its own")
        pattern_by_name[name] = pattern
    return pattern_by_name


def _checked(text: str) -> tuple[str, re.Pattern[str]]:
    name, equals, source = text.partition("=")
    name = name.strip()
    if not equals or not source or not _NAME.fullmatch(name) or len(name) > limits.LABEL_KEY_CHARS:
        raise UsageError(f"{text[:40]!r} is not a redaction pattern", hint=_FORM)
    if name in BUILT_IN:
        raise UsageError(
            f"redaction pattern {name!r} has the name of a built-in rule",
            hint=f"choose another name, such as my-{name}",
        )
    if len(source.splitlines()) > 1:
        raise UsageError(
            f"redaction pattern {name!r} has a line break",
            hint=r"write \n for a line break",
        )
    if len(source) > limits.REDACT_PATTERN_CHARS:
        raise UsageError(
            f"redaction pattern {name!r} is too long", hint=f"use at most {limits.REDACT_PATTERN_CHARS} characters"
        )
    try:
        pattern = re.compile(source)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"redaction pattern {name!r} is not a regular expression: {error}", hint=_FORM) from None
    if any(match[0] == "" for sample in _SAMPLES for match in pattern.finditer(sample)):
        raise UsageError(
            f"redaction pattern {name!r} matches an empty text",
            hint="demand at least one character: + instead of *",
        )
    return name, pattern
