"""Methods of a `Run` as functions of the package: `telemetry.counter`, `telemetry.log`, `telemetry.mark`, …

They can be called without a run, for example at import time. Instruments bind to the run of the process when it
starts. With TELEMETRY_ENDPOINT set, the first call attaches the process to that aggregator. Without a run,
instruments discard their values, and records are dropped.
"""

from __future__ import annotations

from typing import Final

from telemetry.client.process import PROCESS
from telemetry.client.recording import Recording

_RECORDING: Final = Recording(PROCESS)

counter = _RECORDING.counter
gauge = _RECORDING.gauge
series = _RECORDING.series
requests = _RECORDING.requests
request = _RECORDING.request
tracking = _RECORDING.tracking
mark = _RECORDING.mark
params = _RECORDING.params
expect = _RECORDING.expect
headline = _RECORDING.headline
axis = _RECORDING.axis
stragglers = _RECORDING.stragglers
log = _RECORDING.log
log_number = _RECORDING._steps.log_number
"""`Steps.log_number`, for interfaces of other systems. It is no name of the package."""
end_step = _RECORDING.end_step
clear_step = _RECORDING.clear_step
text = _RECORDING.text
table = _RECORDING.table
histogram = _RECORDING.histogram
image = _RECORDING.image
artifact = _RECORDING.artifact
span = _RECORDING.span
span_at = _RECORDING.span_at
put_span_duration = _RECORDING._spans.put
"""`SpanInstruments.put`, for integrations that encode their spans themselves. It is no name of the package."""
