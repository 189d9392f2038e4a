"""Names of the instruments of a span: its durations and its self time, both in milliseconds.

Any program that records instruments with these names reports where its time goes.
"""

from __future__ import annotations

from typing import Final

DURATION: Final = "span."
"""Start of the name of a series of durations. The name of the span follows."""
SELF: Final = "span_self."
"""Start of the name of a counter: the time of a span without the time of the spans inside it."""
UNIT: Final = "ms"
