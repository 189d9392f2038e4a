"""Counters that a feed keeps beside what it feeds."""

from __future__ import annotations

from typing import Final

REFUSED: Final = "feed.refused"
"""Label `reason`: bytes that are no event, and events that make no sense where they stand."""
ERRORS: Final = "feed.errors"
"""Label `error`: what the other side reports that is about no request."""
UNFINISHED: Final = "feed.unfinished"
"""Senders that were heard of, and went or were left without the word that nothing more comes."""
UNCOUNTED: Final = "feed.uncounted"
"""Label `reason`, one of the three below: completed requests whose output tokens nobody can count."""
NO_TOKENIZER: Final = "no_tokenizer"
TOOL_CALLS: Final = "tool_calls"
NO_TEXT: Final = "no_text"
