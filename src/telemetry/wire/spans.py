"""Names of the instruments of a span, its durations and its self time in milliseconds, and labels of its record.

Any program that records instruments with these names reports where its time goes.
"""

from __future__ import annotations

from typing import Final

DURATION: Final = "span."
"""Start of the name of a series of durations. The name of the span follows."""
SELF: Final = "span_self."
"""Start of the name of a counter: the time of a span without the time of the spans inside it."""
UNIT: Final = "ms"
SPAN_ID: Final = "span_id"
"""Label of a record: 16 hexadecimal digits that no other span of the run has. Only nested spans need it."""
PARENT_ID: Final = "parent_id"
"""Label of a record: the id of the span that this one is inside."""
TRACE_ID: Final = "trace_id"
"""Label of a record: 32 hexadecimal digits of the trace of another program. Without it, the run is the trace."""
